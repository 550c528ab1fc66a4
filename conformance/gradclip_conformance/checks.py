"""What each expectation of a case asks of an answer: one function for each kind of expectation in `case`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from gradclip_adapters.contract import DTYPES, Array, Reply

from .answers import Answer, Raised, Replied
from .behaviour import behaviour_of
from .case import (
    Case,
    InputsKept,
    InputsWritten,
    NotSilent,
    RaisesOnNonfinite,
    Recorded,
    Refused,
    Repeatable,
    ReturnedNorm,
    Structure,
    Untouched,
    Values,
)
from .context import Context
from .expected import nonfinite_consequence, nonfinite_norm
from .measure import Measured, expected_arrays, measure, norm_distance, norm_value, options_of, same_bits
from .predict import clip_bound, clip_budget, decoded, narrowest, norm_bound, norm_budget, predict
from .show import SHOWN_ELEMENTS, float64_values, readable_array
from .verdict import Verdict

__all__ = ["check", "documented_by_formula"]


def check(context: Context, answers: Sequence[Answer]) -> Verdict:
    """Hold the answers to a case against its expectation: `pass`, `quality`, `fail`, `unspecified` or `unsupported`."""
    case, answer = context.case, answers[0]
    match case.expectation:
        case Recorded():
            return Verdict("unspecified", f"Recorded: {_what_happened(case, answer)}", observed=_observed(answer))
        case Refused():
            return _refused(case, answer)
        case RaisesOnNonfinite(atomic):
            return _raises_on_nonfinite(case, answer, atomic)
        case NotSilent() if isinstance(answer, Raised):
            return Verdict("pass", observed=_observed(answer))
    if not isinstance(answer, Replied):
        expected = {"gradients": expected_arrays(case, predict(case).gradients)}
        detail = f"A result was expected, and it {_what_happened(case, answer)}."
        return Verdict("fail", detail, expected=expected, observed=_observed(answer))
    if (broken := _broken_form(case, answer.reply)) is not None:
        return broken
    match case.expectation:
        case Values() as values:
            return _values(context, values, answer.reply.gradients)
        case ReturnedNorm() as returned:
            return _returned_norm(case, returned, answer.reply)
        case Untouched(indices):
            return _untouched(context, indices, answer.reply)
        case Structure(aspect):
            return _structure(case, aspect, answer.reply)
        case NotSilent():
            return _not_silent(context, answer.reply)
        case InputsKept():
            return _inputs_kept(case, answer.reply)
        case InputsWritten():
            return _inputs_written(context, answer.reply)
        case Repeatable():
            return _repeatable(answers)
    msg = f"no check for the expectation {case.expectation!r}"
    raise TypeError(msg)


def documented_by_formula(
    context: Context, answer: Answer, formula: Mapping[str, Any], found: Verdict
) -> Verdict | None:
    """The finding under a framework's own formula, if that formula and not the neutral one explains the answer."""
    case = context.case
    if not isinstance(answer, Replied) or _broken_form(case, answer.reply) is not None:
        return None
    if not isinstance(case.expectation, Values | Untouched | InputsWritten) or case.operation == "clip_by_value":
        return None
    indices = [i for i in _judged(case) if i in case.included]
    neutral, own = predict(case), predict(case, formula)
    results = _results(case, answer.reply)
    if results is None or all(neutral.gradients[i] == own.gradients[i] for i in indices):
        return None
    from_neutral, from_own = measure(case, neutral, results, indices), measure(case, own, results, indices)
    # A formula that rounds to the same numbers explains nothing that the neutral rule does not.
    if expected_arrays(case, neutral.gradients) == expected_arrays(case, own.gradients) and found.status == "pass":
        return None
    if not from_own.ulp < from_neutral.ulp or from_own.ulp > clip_bound(case):
        return None
    detail = (
        f"{from_neutral.ulp:.3g} ulp from the neutral rule, {from_own.ulp:.3g} ulp from its own formula "
        f"({options_of(formula)})."
    )
    return Verdict(
        "documented",
        detail,
        ulp=from_neutral.ulp,
        expected={"gradients": expected_arrays(case, neutral.gradients)},
        observed=_observed(answer),
    )


def _judged(case: Case) -> Sequence[int]:
    """The gradients that the case is about."""
    return case.expectation.indices if isinstance(case.expectation, Untouched) else case.included


def _results(case: Case, reply: Reply) -> Sequence[Array | None] | None:
    return reply.inputs if isinstance(case.expectation, InputsWritten) else reply.gradients


def _values(context: Context, expectation: Values, results: Sequence[Array | None]) -> Verdict:
    case = context.case
    prediction = predict(case)
    found = measure(case, prediction, results, case.included)
    budget = 0.0 if case.operation == "clip_by_value" else clip_budget(case)
    bound = budget if expectation.wide or case.operation == "clip_by_value" else clip_bound(case)
    if found.ulp <= budget and not found.touched:
        return Verdict("pass", ulp=found.ulp)
    within = (found.ulp <= bound and not found.touched) or expectation.accuracy
    expected = {"gradients": expected_arrays(case, prediction.gradients)}
    observed = {"gradients": [readable_array(array) for array in results[:SHOWN_ELEMENTS]]}
    detail = _sentence(case, found, budget, bound)
    return Verdict("quality" if within else "fail", detail, found.ulp, expected, observed)


def _sentence(case: Case, found: Measured, budget: float, bound: float) -> str:
    where = f"Element {found.element} of gradient {found.tensor}"
    if found.touched:
        return f"{where} is {found.ulp:.3g} ulp from the input, which had to come back unchanged."
    limit = f"the budget is {budget:g}" + (f", the error bound {bound:g}" if bound > budget else "")
    return f"{where} is {found.ulp:.3g} ulp from the exact result of {case.operation}; {limit}."


def _returned_norm(case: Case, expectation: ReturnedNorm, reply: Reply) -> Verdict:
    if reply.norm is None:
        return Verdict("unsupported", "No norm was returned.")
    expected, observed = _expected_norm(case), {"norm": readable_array(reply.norm)}
    shown = {"norm": float(expected) if math.isfinite(expected) else str(float(expected))}
    try:
        value = norm_value(reply.norm)
    except ValueError as error:
        return Verdict("fail", f"{str(error).capitalize()}.", expected=shown, observed=observed)
    if not math.isfinite(expected):
        if value == expected or (math.isnan(value) and math.isnan(expected)):
            return Verdict("pass")
        return Verdict("fail", f"The norm is {expected}, and {value} was returned.", math.inf, shown, observed)
    distance = norm_distance(reply.norm, Fraction(expected), narrowest(case))
    budget = norm_budget(case)
    if distance <= budget:
        return Verdict("pass", ulp=distance)
    bound = budget if expectation.wide else norm_bound(case)
    within = distance <= bound or expectation.accuracy
    detail = (
        f"The norm {value:g} is {distance:.3g} ulp from the exact one, {float(expected):g}; the budget is {budget:g}."
    )
    return Verdict("quality" if within else "fail", detail, distance, shown, observed)


def _expected_norm(case: Case) -> Any:
    bounds = predict(case).norms[0]
    if bounds is not None:
        return bounds.middle
    tensors = decoded(case)
    return nonfinite_norm([tensor for i in case.included if (tensor := tensors[i]) is not None])


def _untouched(context: Context, indices: Sequence[int], reply: Reply) -> Verdict:
    case = context.case
    for i in indices:
        given, got = case.gradients[i].array, reply.gradients[i]
        if given is None or same_bits(given, got, context.through_optimizer):
            continue
        why = "is excluded" if not case.gradients[i].need_clip else "is not above the threshold"
        detail = f"Gradient {i} {why}, and did not come back bit for bit."
        expected, observed = {"gradients": [readable_array(given)]}, {"gradients": [readable_array(got)]}
        distance = _distance_from_input(context, i, reply)
        return Verdict("fail", detail, distance, expected, observed)
    return Verdict("pass", ulp=0.0)


def _distance_from_input(context: Context, index: int, reply: Reply) -> float | None:
    case, got = context.case, reply.gradients[index]
    if got is None or got.dtype not in DTYPES or not case.gradients[index].need_clip:
        return None
    return measure(case, predict(case), reply.gradients, [index]).ulp


def _structure(case: Case, aspect: str, reply: Reply) -> Verdict:
    """The form itself: count and None are looked at for every case, so only dtype and shape are left."""
    for i, (gradient, got) in enumerate(zip(case.gradients, reply.gradients, strict=True)):
        given = gradient.array
        if given is None or got is None or aspect in ("count", "none", "shape"):
            continue
        if given.dtype != got.dtype:
            detail = f"Gradient {i} was {given.dtype} and came back as {got.dtype}."
            return Verdict("fail", detail, expected=given.dtype, observed=got.dtype)
    return Verdict("pass")


def _broken_form(case: Case, reply: Reply) -> Verdict | None:
    """What makes a reply impossible to compare: the wrong number of gradients, a None, a shape, no numbers."""
    given, got = len(case.gradients), len(reply.gradients)
    if given != got:
        return Verdict("fail", f"{got} gradients came back for {given}.", expected=given, observed=got)
    for i, (gradient, result) in enumerate(zip(case.gradients, reply.gradients, strict=True)):
        before = gradient.array
        if (before is None) != (result is None):
            what = ("there was none", "one came back") if before is None else ("there was one", "None came back")
            return Verdict("fail", f"Gradient {i}: {what[0]}, and {what[1]}.", observed=readable_array(result))
        if before is None or result is None:
            continue
        if before.shape != result.shape:
            detail = f"Gradient {i} had the shape {before.shape} and came back as {result.shape}."
            return Verdict("fail", detail, expected=list(before.shape), observed=list(result.shape))
        if result.dtype not in DTYPES:
            detail = f"Gradient {i} was {before.dtype} and came back as {result.dtype}, which is no float dtype here."
            return Verdict("fail", detail, expected=before.dtype, observed=result.dtype)
    return None


def _not_silent(context: Context, reply: Reply) -> Verdict:
    case = context.case
    tensors = decoded(case)
    groups = [list(case.included)] if case.operation == "clip_by_global_norm" else [[i] for i in case.included]
    for group in groups:
        total = nonfinite_norm([tensor for i in group if (tensor := tensors[i]) is not None])
        if total is None:
            # A finite gradient that is clipped by its own norm is not touched by its neighbour's NaN.
            found = measure(case, predict(case), reply.gradients, group)
            if found.ulp > clip_bound(case) or found.touched:
                return Verdict("fail", _sentence(case, found, clip_budget(case), clip_bound(case)), found.ulp)
            continue
        results = [float64_values(array) for i in group if (array := reply.gradients[i]) is not None]
        formula = [nonfinite_consequence(tensor, total) for i in group if (tensor := tensors[i]) is not None]
        if all(np.isnan(result).all() for result in results):
            continue
        if all(np.array_equal(r, f, equal_nan=True) for r, f in zip(results, formula, strict=True)):
            continue
        what = _what_happened(case, Replied(reply))
        detail = f"The norm is {total}; neither the formula's result, nor NaN everywhere, nor an error: {what}."
        observed = {"gradients": [readable_array(array) for array in reply.gradients]}
        return Verdict(
            "fail", detail, expected={"gradients": [list(map(str, one)) for one in formula]}, observed=observed
        )
    return Verdict("pass")


def _refused(case: Case, answer: Answer) -> Verdict:
    observed = _observed(answer)
    if not isinstance(answer, Raised):
        detail = f"A threshold of {case.options['clip_norm']} must be refused with an error; it {_what_happened(case, answer)}."
        return Verdict("fail", detail, expected="an error", observed=observed)
    return _nothing_changed(case, answer, observed)


def _raises_on_nonfinite(case: Case, answer: Answer, atomic: bool) -> Verdict:
    observed = _observed(answer)
    if not isinstance(answer, Raised):
        detail = f"`error_if_nonfinite` was set, the norm is not finite, and it {_what_happened(case, answer)}."
        return Verdict("fail", detail, expected="an error", observed=observed)
    return _nothing_changed(case, answer, observed) if atomic else Verdict("pass")


def _nothing_changed(case: Case, answer: Raised, observed: Any) -> Verdict:
    if answer.inputs is None:
        return Verdict("pass")
    for i, (gradient, after) in enumerate(zip(case.gradients, answer.inputs, strict=True)):
        if gradient.array is not None and not same_bits(gradient.array, after, False):
            detail = f"It raised {answer.kind}, and gradient {i} had been changed by then."
            return Verdict("fail", detail, expected="unchanged gradients", observed=observed)
    return Verdict("pass")


def _inputs_kept(case: Case, reply: Reply) -> Verdict:
    if reply.inputs is None:
        return Verdict("unsupported", "The adapter cannot read back the gradients that it passed.")
    for i, (gradient, after) in enumerate(zip(case.gradients, reply.inputs, strict=True)):
        if gradient.array is not None and not same_bits(gradient.array, after, False):
            expected, observed = readable_array(gradient.array), readable_array(after)
            return Verdict("fail", f"Gradient {i} that was passed has been changed.", None, expected, observed)
    return Verdict("pass")


def _inputs_written(context: Context, reply: Reply) -> Verdict:
    if reply.inputs is None:
        return Verdict("unsupported", "The adapter cannot read back the gradients that it passed.")
    return _values(context, Values(), reply.inputs)


def _repeatable(answers: Sequence[Answer]) -> Verdict:
    first, second = (answer.reply if isinstance(answer, Replied) else None for answer in answers)
    if first is None or second is None or (first.gradients, first.norm) != (second.gradients, second.norm):
        return Verdict("fail", "The same call on fresh copies of the same gradients gave other bits.")
    return Verdict("pass")


def _observed(answer: Answer) -> Any:
    if isinstance(answer, Raised):
        return {"raised": answer.kind, "text": answer.text[:500]}
    if isinstance(answer, Replied):
        shown: dict[str, Any] = {
            "gradients": [readable_array(array) for array in answer.reply.gradients[:SHOWN_ELEMENTS]]
        }
        if answer.reply.norm is not None:
            shown["norm"] = readable_array(answer.reply.norm)
        return shown
    return None


def _what_happened(case: Case, answer: Answer) -> str:
    """The end of a sentence that begins with "it"."""
    if isinstance(answer, Raised):
        return f"raised {answer.kind}: {answer.text[:200]}"
    words = {
        "unchanged": "returned the gradients unchanged",
        "all-nan": "returned NaN everywhere",
        "all-zero": "returned zeros",
        "sign-flipped": "returned the gradients with the other sign",
        "partly-nonfinite": "returned NaN or infinity where the input was finite",
        "scaled": "returned other gradients",
    }
    behaviour = behaviour_of(case, answer)
    return words.get(behaviour, f"answered {behaviour}")
