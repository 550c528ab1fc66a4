"""Find out whether a documentation explains answers, by a formula or in words, better than the neutral rule does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gradclip_adapters.contract import Array, Reply
from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.statuses import Status

from ..cases.model import Case
from ..oracle.arrays import round_elements
from ..oracle.distances import MANY, measure, measure_distances_in_ulp_of
from ..oracle.formats import convert_to_dtype
from ..oracle.formula import Formula
from ..oracle.model import ExpectedArray, Prediction
from ..oracle.predict import predict
from .expectation import Expectation, find_broken_form, take_rows
from .fingerprint import show_answer, show_expected_arrays
from .model import Answer, Context, Replied, Verdict, select_claims

__all__ = ["judge_by_claims", "judge_by_formula"]

#: The number of elements that are compared first.
FEW = 64


def judge_by_claims(
    context: Context,
    found: Verdict,
    explain: Callable[[Formula], Verdict | None] = lambda _: None,
    *,
    is_bounded: bool = True,
) -> Verdict:
    """Return a verdict, given the claims about the documentation.

    `explain` returns the verdict under a framework's own formula, or None. `is_bounded` says whether a documentation
    that promises nothing outside a domain excuses the answer.
    """
    for claim in select_claims(context.claims, context.case.id, context.subject):
        quoted = {"quote": claim.phrase or None, "url": claim.where}
        if claim.formula is not None:
            own = explain(claim.formula)
            if own is not None:
                return own.change_status(Status.DOCUMENTED, **quoted)
        elif claim.domain is not None:
            if found.status == Status.FAIL and is_bounded and claim.domain.leaves_out(context.case.options):
                promise = f"The framework's documentation promises nothing for this {claim.domain.option}."
                detail = f"{found.detail} {promise}"
                return found.change_status(Status.DOCUMENTED, detail=detail, **quoted)
        elif found.status == Status.FAIL and claim.predicts in (found.behaviour, found.behaviour.partition(":")[0]):
            detail = f"{found.detail} The framework's documentation says so."
            return found.change_status(Status.DOCUMENTED, detail=detail, **quoted)
    return found


def judge_by_formula(
    context: Context, expectation: Expectation, answers: Sequence[Answer], formula: Formula, found: Verdict
) -> Verdict | None:
    """Return the verdict under a framework's own formula. Return None unless it explains more than the neutral rule.

    The results of the two formulas must round to different numbers, and the answer must be nearer to the result of the
    framework's formula. The answer must also lie within the budget of that result; or, if the neutral rule gives
    `fail`, within the error bound. Both distances are in ulp of the neutral result, because the other result may lie in
    another binade.

    Near the threshold of the framework's formula, rounding errors decide whether it scales a gradient. A scaled
    gradient is then explained, too, although the threshold of the neutral rule leaves the gradient unchanged.

    A relation between calls is explained if each of the answers is explained.
    """
    case = context.case
    if not OPERATIONS[case.operation].is_by_norm or (expectation.relates and found.status == Status.PASS):
        return None
    replies = [take_rows(case, answer.reply) for answer in answers if isinstance(answer, Replied)]
    following = expectation.follow_up(case, Replied(replies[0])) if replies else None
    cases = [case] if following is None else [case, following]
    if len(replies) < len(answers) or len(cases) != len(replies):
        return None
    pairs = [_measure_distances(one, expectation, reply, formula) for one, reply in zip(cases, replies, strict=True)]
    allowed = (Status.PASS, Status.QUALITY) if found.status == Status.FAIL else (Status.PASS,)
    if any(pair is None or pair.grade not in allowed for pair in pairs):
        return None
    farthest = max((pair for pair in pairs if pair is not None), key=lambda pair: pair.from_neutral)
    if not (farthest.from_own < farthest.from_neutral or farthest.at_own_threshold):
        return None
    detail = (
        f"{farthest.from_neutral:.3g} ulp from the neutral rule, {farthest.from_own:.3g} ulp from its own formula "
        f"({formula}){', at its threshold' if farthest.at_own_threshold else ''}."
    )
    return Verdict(
        Status.DOCUMENTED,
        detail,
        ulp=farthest.from_neutral,
        expected=found.expected or {"gradients": show_expected_arrays(case, predict(case).gradients)},
        observed=show_answer(answers[0]),
        formula=formula,
    )


@dataclass(frozen=True)
class _Distances:
    """The distances of an answer from the results of two formulas, in ulp of the neutral result."""

    from_neutral: float
    from_own: float
    #: The grade of the answer under the framework's own formula.
    grade: str
    #: Whether the answer changed a gradient that the neutral rule leaves unchanged, and whose norm is so near the
    #: threshold of the framework's own formula that rounding errors decide.
    at_own_threshold: bool


def _measure_distances(case: Case, expectation: Expectation, reply: Reply, formula: Formula) -> _Distances | None:
    """Measure the distances from the neutral formula and from `formula`. Return None if their results do not differ."""
    results = expectation.select_explained_results(reply)
    if results is None or find_broken_form(case, replace(reply, gradients=tuple(results))) is not None:
        return None
    indices = expectation.list_judged_gradients(case)
    neutral, own = predict(case), predict(case, formula)
    from_neutral = measure(case, neutral, results, indices)
    at_own_threshold = from_neutral.touched and own.near[from_neutral.tensor]
    if not (expectation.relates or at_own_threshold) and not any(
        _rounds_differently(neutral.gradients[i], own.gradients[i], case.gradients[i].array) for i in indices
    ):
        return None
    return _Distances(
        from_neutral=from_neutral.ulp,
        from_own=max((_measure_from_own(neutral, own, i, case, results[i]) for i in indices), default=0.0),
        grade=measure(case, own, results, indices).grade,
        at_own_threshold=at_own_threshold,
    )


def _measure_from_own(neutral: Prediction, own: Prediction, index: int, case: Case, got: Array | None) -> float:
    """Return a gradient's distance from the result of the framework's own formula, in ulp of the neutral result.

    Return 0 for a gradient without a result.
    """
    given, expected, other = case.gradients[index].array, own.gradients[index], neutral.gradients[index]
    if got is None or given is None or expected is None or other is None:
        return 0.0
    every = measure_distances_in_ulp_of(other, convert_to_dtype(got, given.dtype), expected, given.dtype)
    return float(every.max(initial=0.0))


def _rounds_differently(neutral: ExpectedArray | None, own: ExpectedArray | None, given: Array | None) -> bool:
    """Return whether two expectations round to different numbers in their first 4,096 elements."""
    if neutral is None or own is None or given is None or neutral == own:
        return False
    for start, stop in ((0, FEW), (FEW, MANY)):
        # Most arrays differ in their first elements, and exact rounding is slow.
        one, other = (round_elements(each.take_part(start, stop), given.dtype) for each in (neutral, own))
        if one != other:
            return True
    return False
