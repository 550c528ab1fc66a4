"""Expect one call to be right in all respects: each element of each result, None, dtypes, the norm, and the inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from gradclip_adapters.contract import Array, Reply
from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.statuses import Status

from ...cases.model import Case
from ...cases.readable import SHOWN_ELEMENTS, show_array, show_gradients
from ...oracle.distances import Measured
from ...oracle.formats import has_long_doubles
from ...oracle.formula import PLAIN
from ...oracle.long_doubles import DOUBT, WholeCall, make_whole_call
from ...oracle.predict import predict
from ...oracle.question import find_narrowest
from ..arrays import (
    describe_first_difference,
    differs_in_subnormals_only,
    has_same_bits,
    measure_norm_distance,
    read_norm,
)
from ..expectation import Expectation, Part, find_broken_form, find_first_changed, has_option_for_errors
from ..fingerprint import describe_behaviour, describe_results, describe_what_happened, show_answer
from ..model import Answer, Context, Raised, Replied, Verdict, select_claims

__all__ = ["Combination"]


@dataclass(frozen=True)
class Combination(Expectation):
    """The call keeps all rules. The detail names the rule that is broken.

    `exact`: no order of the sum rounds the norm, so that only one side of the threshold is right.
    """

    name: ClassVar[str] = "combination"
    exact: bool = False

    def judge_whole(self, context: Context, answers: Sequence[Answer]) -> Verdict | None:
        """Return the worst verdict on all parts of the answer."""
        (answer,) = answers
        if isinstance(answer, Raised):
            verdict = self._judge_error(context, answer)
            # No documentation excuses an error that is raised after a gradient was changed.
            # An earlier call with other elements may have raised it.
            is_reused = "reused" in context.case.options
            is_changed = not is_reused and find_first_changed(context.case, answer.inputs) is not None
            return verdict if is_changed else _apply_claims(context, verdict)
        if not isinstance(answer, Replied) or not has_long_doubles():
            return None
        if answer.reply.malformed is not None:
            return _fail("", f"The call {describe_what_happened(context.case, answer)}.", answer, "malformed")
        broken = find_broken_form(context.case, answer.reply)
        if broken is not None:
            return replace(broken, behaviour="other-form")
        worst = max(self._judge_parts(context, answer), key=lambda one: SEVERITY[one.status])
        if worst.status != Status.FAIL or not worst.breaks:
            return replace(worst, breaks=None)
        operation = context.case.rule.partition(".")[0]
        rule = f"{operation}.{worst.breaks}"
        return replace(worst, detail=f"The answer breaks {rule}: {worst.detail}", breaks=rule)

    def _judge_error(self, context: Context, answer: Raised) -> Verdict:
        call = make_whole_call(context.case, self.exact)
        by_norm = OPERATIONS[context.case.operation].is_by_norm
        if by_norm and any(not np.isfinite(group.norm) for group in call.groups) and not has_option_for_errors(context):
            return Verdict(Status.PASS, observed=show_answer(answer), behaviour=f"raises:{answer.kind}")
        detail = f"A result was expected, but the call {describe_what_happened(context.case, answer)}."
        return _fail("", detail, answer, f"raises:{answer.kind}")

    def _judge_parts(self, context: Context, answer: Replied) -> Iterator[Verdict]:
        """Yield the verdict on each part of a reply that has the right form."""
        case, reply = context.case, answer.reply
        call = make_whole_call(case, self.exact)
        yield from _judge_excluded(context, answer)
        yield from _judge_dtypes(case, answer)
        yield _judge_elements(context, call, answer, reply.gradients, "")
        if "returns_norm" in context.subject.features and OPERATIONS[case.operation].returns_norm:
            yield _judge_norm(case, call, answer)
        if reply.inputs is not None and "functional" in context.subject.features:
            yield from _judge_kept(context, answer, reply.inputs)
        if reply.inputs is not None and "in_place" in context.subject.features:
            yield from _judge_written(context, call, answer, reply.inputs)
        for what, rule in ((reply.shared, "results-independent"), (reply.disturbed, "surroundings-kept")):
            if what:
                yield _fail(rule, f"{' '.join(what)}.", answer, rule)

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Return `unsupported`, because this machine cannot judge the case."""
        del context, replies
        return Verdict(Status.UNSUPPORTED, "This machine cannot judge the case: its long double has too few digits.")

    def describe(self, case: Case) -> Sequence[Part]:
        """Return the expected gradients, and the other parts that are judged."""
        return (
            *describe_results(case, predict(case), type(self).__name__),
            "excluded gradients, None, dtypes, the norm and the gradients that were passed are judged, too",
        )


#: The rank of each status. The worst status has the highest rank.
SEVERITY = {Status.PASS: 0, Status.QUALITY: 1, Status.DOCUMENTED: 2, Status.FAIL: 3}


def _fail(rule: str, detail: str, answer: Answer, word: str, ulp: float | None = None) -> Verdict:
    """Return a failure. `rule` is the name of the broken rule, unless the form is wrong."""
    return Verdict(Status.FAIL, detail, ulp, None, show_answer(answer), behaviour=word, breaks=rule or None)


def _judge_excluded(context: Context, answer: Replied) -> Iterator[Verdict]:
    """Yield a failure for the first excluded gradient that has changed."""
    pairs = zip(context.case.gradients, answer.reply.gradients, strict=True)
    for i, (gradient, got) in enumerate(pairs):
        given = gradient.array
        if gradient.need_clip or given is None or _is_kept(context, given, got):
            continue
        detail = f"Gradient {i} ({given.dtype}) is excluded and did not come back bit for bit: "
        detail += f"{describe_first_difference(given, got)}."
        yield _fail("excluded-untouched", detail, answer, "excluded-changed")
        return


def _is_kept(context: Context, given: Array, got: Array | None) -> bool:
    if has_same_bits(given, got, context.through_optimizer):
        return True
    return context.flushes_subnormals and got is not None and differs_in_subnormals_only(given, got)


def _judge_dtypes(case: Case, answer: Replied) -> Iterator[Verdict]:
    for i, (gradient, got) in enumerate(zip(case.gradients, answer.reply.gradients, strict=True)):
        if gradient.array is not None and got is not None and gradient.array.dtype != got.dtype:
            detail = f"Gradient {i} was {gradient.array.dtype} and came back as {got.dtype}."
            yield _fail("dtype-kept", detail, answer, f"other-form:{got.dtype}")
            return


def _judge_elements(
    context: Context, call: WholeCall, answer: Replied, results: Sequence[Array | None], what: str
) -> Verdict:
    """Return the verdict on the included elements, given the claims of the documentation."""
    case, flushes = context.case, context.flushes_subnormals
    if not OPERATIONS[case.operation].is_by_norm:
        found = call.measure_bounds(results, keeps_zeros=not context.through_optimizer, flushes=flushes)
        return _apply_claims(context, _judge_measured(context, answer, found, what))
    if call.find_silent_group(results) is not None:
        detail = "A norm is not finite. The formula's result, NaN everywhere or an error must show it."
        return _apply_claims(context, _fail("nan-not-silent", detail, answer, describe_behaviour(case, answer)))
    neutral = call.measure(results, flushes=flushes)
    verdict = _judge_measured(context, answer, neutral, what)
    if verdict.status == Status.PASS:
        return verdict
    for claim in select_claims(context.claims, case.id, context.subject):
        if claim.formula is None or claim.formula == PLAIN:
            continue
        own = call.measure(results, claim.formula, flushes=flushes)
        allowed = (Status.PASS, Status.QUALITY) if verdict.status == Status.FAIL else (Status.PASS,)
        if own.grade in allowed and (own.ulp < neutral.ulp or neutral.touched):
            detail = (
                f"{neutral.ulp:.3g} ulp from the neutral rule, {own.ulp:.3g} ulp from its own formula "
                f"({claim.formula})."
            )
            quote = claim.phrase or None
            return verdict.change_status(Status.DOCUMENTED, detail=detail, quote=quote, url=claim.where)
    return _apply_claims(context, verdict)


def _apply_claims(context: Context, verdict: Verdict) -> Verdict:
    """Return the verdict, given the claims that predict a behaviour."""
    for claim in select_claims(context.claims, context.case.id, context.subject):
        word = verdict.behaviour
        outside = claim.domain is not None and claim.domain.leaves_out(context.case.options)
        if verdict.status == Status.FAIL and outside:
            return verdict.change_status(Status.DOCUMENTED, quote=claim.phrase or None, url=claim.where)
        if verdict.status == Status.FAIL and claim.predicts in (word, word.partition(":")[0]):
            detail = f"{verdict.detail} The framework's documentation says so."
            return verdict.change_status(Status.DOCUMENTED, detail=detail, quote=claim.phrase, url=claim.where)
    return verdict


def _judge_measured(context: Context, answer: Replied, found: Measured, what: str) -> Verdict:
    if found.grade == Status.PASS:
        return Verdict(Status.PASS, ulp=found.ulp)
    case = context.case
    shown = show_gradients([answer.reply.gradients[found.tensor]][:SHOWN_ELEMENTS])
    by_norm = "identity-below" if found.touched else "scaled-above"
    rule = what or ("bounds" if not OPERATIONS[case.operation].is_by_norm else by_norm)
    detail = found.write_sentence(case.operation)
    return Verdict(found.grade, detail, found.ulp, None, shown, behaviour=describe_behaviour(case, answer), breaks=rule)


def _judge_norm(case: Case, call: WholeCall, answer: Replied) -> Verdict:
    """Return the verdict on the norm that was returned."""
    norm, dtype = answer.reply.norm, find_narrowest(case)
    expected: Any = call.groups[0].norm if call.groups else np.longdouble(0)
    if norm is None:
        return _fail("returned-norm", f"The norm is {expected:g}, and none was returned.", answer, "norm-missing")
    try:
        value = read_norm(norm)
    except ValueError as error:
        return _fail("returned-norm", f"{str(error).capitalize()}.", answer, "norm-unreadable")
    if not np.isfinite(expected):
        if value == expected or (math.isnan(value) and np.isnan(expected)):
            return Verdict(Status.PASS)
        return _fail("returned-norm", f"The norm is {expected}, and {value} was returned.", answer, "norm")
    exact, errors = Fraction(*expected.as_integer_ratio()), call.norm_errors
    distance = max(0.0, measure_norm_distance(norm, exact, dtype) - DOUBT)
    if distance <= errors.norm_budget:
        return Verdict(Status.PASS, ulp=distance)
    detail = (
        f"The norm {value:g} is {distance:.3g} ulp of {dtype} from the exact one, {float(expected):g}; "
        f"the budget is {errors.norm_budget:.3g}."
    )
    status = Status.QUALITY if distance <= errors.norm_bound else Status.FAIL
    return Verdict(
        status,
        detail,
        distance,
        {"norm": float(expected)},
        {"norm": show_array(norm)},
        behaviour="norm",
        breaks="returned-norm",
    )


def _judge_kept(context: Context, answer: Replied, inputs: Sequence[Array | None]) -> Iterator[Verdict]:
    for i, gradient in enumerate(context.case.gradients):
        if gradient.array is not None and not has_same_bits(gradient.array, inputs[i], False):
            difference = describe_first_difference(gradient.array, inputs[i])
            detail = f"The call changed gradient {i}, which was passed to it: {difference}."
            yield _fail("inputs-not-mutated", detail, answer, "inputs-changed")
            return


def _judge_written(
    context: Context, call: WholeCall, answer: Replied, inputs: Sequence[Array | None]
) -> Iterator[Verdict]:
    """Judge the values that the passed gradients hold afterwards, unless they are the results."""
    if all(one == other for one, other in zip(inputs, answer.reply.gradients, strict=True)):
        return
    written = replace(answer.reply, gradients=tuple(inputs))
    if (broken := find_broken_form(context.case, written)) is not None:
        yield replace(broken, detail=f"In the gradients that were passed: {broken.detail}", behaviour="other-form")
        return
    yield from _judge_excluded(context, Replied(written))
    yield _judge_elements(context, call, Replied(written), inputs, "in-place-written")
