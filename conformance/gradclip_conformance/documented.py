"""Whether a framework's own formula, and not the neutral one, explains its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradclip_adapters.contract import Array, Reply

from .answers import Answer, Replied
from .case import Case, InputsWritten, Metamorphic, Untouched, Values
from .check_form import broken_form, rows_only
from .context import Context
from .distances import MANY, rounded
from .expected import Expected
from .measure import Measured, expected_arrays, measure, options_of
from .predict import predict
from .relations import cases_of
from .sentences import observed_answer
from .verdict import Verdict

__all__ = ["documented_by_formula"]


def documented_by_formula(
    context: Context, answers: Sequence[Answer], formula: Mapping[str, Any], found: Verdict
) -> Verdict | None:
    """The finding under a framework's own formula; None where that explains no more than the neutral rule does.

    The formula explains an answer that is nearer to its result than to the neutral one, where the two round to
    different numbers: one within the budget, whatever the neutral rule says of it, and one within the error bound where
    that says `fail`. A relation between calls is explained where each of the answers is.
    """
    case = context.case
    if case.operation == "clip_by_value" or not isinstance(
        case.expectation, Values | Untouched | InputsWritten | Metamorphic
    ):
        return None
    related = isinstance(case.expectation, Metamorphic)
    if related and found.status == "pass":
        return None
    replies = [rows_only(case, answer.reply) for answer in answers if isinstance(answer, Replied)]
    cases = cases_of(case, replies)
    if len(replies) < len(answers) or len(cases) != len(replies):
        return None
    pairs = [_distances(one, reply, formula) for one, reply in zip(cases, replies, strict=True)]
    allowed = ("pass",) if found.status != "fail" else ("pass", "quality")
    if any(pair is None or pair[1].grade not in allowed for pair in pairs):
        return None
    from_neutral, from_own = max((pair for pair in pairs if pair is not None), key=lambda pair: pair[0].ulp)
    if not from_own.ulp < from_neutral.ulp:
        return None
    detail = (
        f"{from_neutral.ulp:.3g} ulp from the neutral rule, {from_own.ulp:.3g} ulp from its own formula "
        f"({options_of(formula)})."
    )
    return Verdict(
        "documented",
        detail,
        ulp=from_neutral.ulp,
        expected=found.expected or {"gradients": expected_arrays(case, predict(case).gradients)},
        observed=observed_answer(answers[0]),
    )


def _distances(case: Case, reply: Reply, formula: Mapping[str, Any]) -> tuple[Measured, Measured] | None:
    """From the neutral formula and from the own one; None where the two cannot be told apart."""
    results = reply.inputs if isinstance(case.expectation, InputsWritten) else reply.gradients
    if results is None or broken_form(case, replace(reply, gradients=results)) is not None:
        return None
    indices = _judged(case)
    neutral, own = predict(case), predict(case, formula)
    if not isinstance(case.expectation, Metamorphic) and not any(
        _rounds_differently(neutral.gradients[i], own.gradients[i], case.gradients[i].array) for i in indices
    ):
        return None
    return measure(case, neutral, results, indices), measure(case, own, results, indices)


def _judged(case: Case) -> list[int]:
    """The gradients that the case is about, as far as they are clipped."""
    if isinstance(case.expectation, Untouched):
        return [i for i in case.expectation.indices if i in case.included]
    return list(case.included)


def _rounds_differently(neutral: Expected | None, own: Expected | None, given: Array | None) -> bool:
    """Whether two expectations round to different numbers, as far as the first thousands of elements show."""
    if neutral is None or own is None or given is None or neutral == own:
        return False
    one, other = (replace(each, values=each.values.part(0, MANY)) for each in (neutral, own))
    return rounded(one, given.dtype) != rounded(other, given.dtype)
