"""Expect one call to be right in all respects: each element of each result, None, dtypes, the norm, and the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from gradclip_adapters.contract import Reply
from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.statuses import Status

from ...cases.model import Case
from ...cases.readable import show_gradients
from ...oracle.distances import Measured
from ...oracle.formats import has_long_doubles
from ...oracle.formula import PLAIN, Formula
from ...oracle.long_doubles import DOUBT, WholeCall, make_whole_call
from ...oracle.predict import predict
from ..expectation import Expectation, Part, find_broken_form, find_first_changed, has_option_for_errors
from ..fingerprint import describe_behaviour, describe_results, describe_what_happened, show_answer
from ..formulas import judge_by_claims
from ..model import Answer, Context, Raised, Replied, Verdict
from .effects import InputsKept, NoSharedMemory, SurroundingsKept
from .elements import Untouched, judge_written
from .norm import judge_norm
from .structure import Structure

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
            return self._judge_error(context, answer)
        if not isinstance(answer, Replied) or not has_long_doubles():
            return None
        if answer.reply.malformed is not None:
            detail = f"The call {describe_what_happened(context.case, answer)}."
            return Verdict(Status.FAIL, detail, observed=show_answer(answer), behaviour="malformed")
        broken = find_broken_form(context.case, answer.reply)
        if broken is not None:
            return replace(broken, behaviour="other-form")
        worst = max(self._judge_parts(context, answer), key=lambda one: SEVERITY[one.status])
        if worst.status != Status.FAIL:
            return replace(worst, breaks=None)
        return replace(worst, detail=f"The answer breaks {worst.breaks}: {worst.detail}")

    def _judge_error(self, context: Context, answer: Raised) -> Verdict:
        case, behaviour = context.case, describe_behaviour(context.case, answer)
        call = make_whole_call(case, self.exact)
        by_norm = OPERATIONS[case.operation].is_by_norm
        if by_norm and any(not np.isfinite(group.norm) for group in call.groups) and not has_option_for_errors(context):
            return Verdict(Status.PASS, observed=show_answer(answer), behaviour=behaviour)
        detail = f"A result was expected, but the call {describe_what_happened(case, answer)}."
        found = Verdict(Status.FAIL, detail, observed=show_answer(answer), behaviour=behaviour)
        # No documentation excuses an error that is raised after a gradient was changed.
        # An earlier call with other elements may have raised it.
        is_changed = "reused" not in case.options and find_first_changed(case, answer.inputs) is not None
        return found if is_changed else judge_by_claims(context, found)

    def _judge_parts(self, context: Context, answer: Replied) -> Iterator[Verdict]:
        """Yield the verdict on each part of a reply that has the right form."""
        case, reply, features = context.case, answer.reply, context.subject.features
        call = make_whole_call(case, self.exact)

        def apply(name: str, expectation: Expectation) -> Verdict:
            return _name_rule(context, name, answer, expectation.judge_replies(context, [reply]))

        yield apply("excluded-untouched", Untouched(case.excluded))
        yield apply("dtype-kept", Structure("dtype"))
        yield _judge_elements(context, call, reply)
        if "returns_norm" in features and OPERATIONS[case.operation].returns_norm:
            norm = call.groups[0].norm if call.groups else np.longdouble(0)
            right = Fraction(*norm.as_integer_ratio()) if np.isfinite(norm) else float(norm)
            found = judge_norm(case, reply.norm, [right], call.norm_errors, doubt=DOUBT)
            yield _name_rule(context, "returned-norm", answer, found, "norm")
        if reply.inputs is not None and "functional" in features:
            yield apply("inputs-not-mutated", InputsKept())
        if reply.inputs is not None and "in_place" in features and reply.inputs != reply.gradients:
            found = judge_written(context, reply, lambda written: _judge_elements(context, call, written))
            yield _name_rule(context, "in-place-written", answer, found)
        if reply.shared:
            yield apply("results-independent", NoSharedMemory())
        if reply.disturbed:
            yield apply("surroundings-kept", SurroundingsKept())

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


def _name_rule(context: Context, name: str, answer: Answer, found: Verdict, about: str = "gradients") -> Verdict:
    """Return a verdict with the full name of its rule, and the short word for the part of the answer."""
    if found.status == Status.PASS:
        return found
    rule = f"{OPERATIONS[context.case.operation].prefix}.{name}"
    return replace(found, breaks=rule, behaviour=describe_behaviour(context.case, answer, about))


def _judge_elements(context: Context, call: WholeCall, reply: Reply) -> Verdict:
    """Return the verdict on the included elements, given the claims of the documentation."""
    case, results, flushes = context.case, reply.gradients, context.flushes_subnormals
    if not OPERATIONS[case.operation].is_by_norm:
        bounds = call.measure_bounds(results, keeps_zeros=not context.through_optimizer, flushes=flushes)
        return judge_by_claims(context, _judge_measured(context, reply, bounds, "bounds"))
    if call.find_silent_group(results) is not None:
        detail = "A norm is not finite. The formula's result, NaN everywhere or an error must show it."
        found = Verdict(Status.FAIL, detail, observed=show_answer(Replied(reply)))
        return judge_by_claims(context, _name_rule(context, "nan-not-silent", Replied(reply), found))
    neutral = call.measure(results, flushes=flushes)
    verdict = _judge_measured(context, reply, neutral, "identity-below" if neutral.touched else "scaled-above")
    if verdict.status == Status.PASS:
        return verdict

    def judge_by_formula(formula: Formula) -> Verdict | None:
        own = call.measure(results, formula, flushes=flushes)
        allowed = (Status.PASS, Status.QUALITY) if verdict.status == Status.FAIL else (Status.PASS,)
        if formula == PLAIN or own.grade not in allowed or not (own.ulp < neutral.ulp or neutral.touched):
            return None
        detail = f"{neutral.ulp:.3g} ulp from the neutral rule, {own.ulp:.3g} ulp from its own formula ({formula})."
        return replace(verdict, detail=detail)

    return judge_by_claims(context, verdict, judge_by_formula)


def _judge_measured(context: Context, reply: Reply, found: Measured, rule: str) -> Verdict:
    if found.grade == Status.PASS:
        return Verdict(Status.PASS, ulp=found.ulp)
    shown = show_gradients([reply.gradients[found.tensor]])
    verdict = Verdict(found.grade, found.write_sentence(context.case.operation), found.ulp, observed=shown)
    return _name_rule(context, rule, Replied(reply), verdict)
