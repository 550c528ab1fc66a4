"""Compare an answer with the results of the neutral rule and with those of another formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradclip_adapters.contract import Array

from .arrays import round_elements
from .distances import measure, measure_distances_in_ulp_of
from .formats import convert_to_dtype
from .formula import Formula
from .model import ExpectedArray, Prediction
from .predict import predict
from .question import Question

#: The numbers of elements of two expectations that are compared first, and at most.
FEW, MANY = 64, 4096


@dataclass(frozen=True)
class Comparison:
    """The distances of an answer from the results of two formulas, in ulp of the neutral result."""

    from_neutral: float
    from_own: float
    #: The grade of the answer under the framework's own formula.
    grade: str
    #: Whether the answer changed a gradient that the neutral rule leaves unchanged, and whose norm is so near the
    #: threshold of the framework's own formula that rounding errors decide.
    at_own_threshold: bool


def compare_formulas(
    question: Question,
    formula: Formula,
    results: Sequence[Array | None],
    indices: Sequence[int],
    *,
    must_differ: bool,
) -> Comparison | None:
    """Compare some results with those of two formulas.

    With `must_differ`, return None if the results of the two formulas round to the same numbers.
    """
    neutral, own = predict(question), predict(question, formula)
    from_neutral = measure(question, neutral, results, indices)
    at_own_threshold = from_neutral.touched and own.near[from_neutral.tensor]
    if (
        must_differ
        and not at_own_threshold
        and not any(
            _rounds_differently(neutral.gradients[i], own.gradients[i], question.gradients[i].array) for i in indices
        )
    ):
        return None
    return Comparison(
        from_neutral=from_neutral.ulp,
        from_own=max((_measure_from_own(neutral, own, i, question, results[i]) for i in indices), default=0.0),
        grade=measure(question, own, results, indices).grade,
        at_own_threshold=at_own_threshold,
    )


def _measure_from_own(neutral: Prediction, own: Prediction, index: int, question: Question, got: Array | None) -> float:
    """Return a gradient's distance from the result of the framework's own formula, in ulp of the neutral result.

    Return 0 for a gradient without a result.
    """
    given, expected, other = question.gradients[index].array, own.gradients[index], neutral.gradients[index]
    if got is None or given is None or expected is None or other is None:
        return 0.0
    every = measure_distances_in_ulp_of(other, convert_to_dtype(got, given.dtype), expected, given.dtype)
    return float(every.max(initial=0.0))


def _rounds_differently(neutral: ExpectedArray | None, own: ExpectedArray | None, given: Array | None) -> bool:
    """Return whether two expectations round to different numbers in their first elements."""
    if neutral is None or own is None or given is None or neutral == own:
        return False
    every = range(len(own.values))
    for places in (every[:FEW], every[FEW:MANY]):
        # Most arrays differ in their first elements, and exact rounding is slow.
        one, other = (round_elements(each.take_places(places), given.dtype) for each in (neutral, own))
        if one != other:
            return True
    return False
