"""Examine elements of results without an oracle: those that left the range, zeros, and norms that are not finite."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gradclip_adapters.contract import Array

from ...cases.model import Case
from ...oracle.arrays import decode
from ...oracle.formats import float64_values
from ...oracle.model import nonfinite_consequence, nonfinite_norm
from ..model import Context

__all__ = ["flipped_zero", "has_left_range", "is_silent", "nonfinite_total"]


def has_left_range(case: Case, results: Sequence[Array | None]) -> bool:
    """Return whether arithmetic with a step beyond the range explains every included element.

    A coefficient that underflows, or a norm that overflows, gives zeros. A product that overflows gives infinities with
    the elements' signs. One infinity divided by another gives NaN.
    """
    pairs = [(given, got) for i in case.included if (given := case.gradients[i].array) and (got := results[i])]
    before = np.concatenate([float64_values(given) for given, _ in pairs])
    after = np.concatenate([float64_values(got) for _, got in pairs])
    with np.errstate(invalid="ignore"):
        return any(np.array_equal(after, before * what, equal_nan=True) for what in (0.0, math.inf, math.nan))


def flipped_zero(context: Context, results: Sequence[Array | None]) -> int | None:
    """Return the first gradient in which a zero has changed its sign, if the bounds are below and above zero."""
    case = context.case
    high = float(case.options["max"])
    if context.through_optimizer or not float(case.options.get("min", -high)) < 0 < high:
        return None
    for i in case.included:
        given, got = case.gradients[i].array, results[i]
        if given is None or got is None:
            continue
        before, after = float64_values(given), float64_values(got)
        if (np.signbit(before) != np.signbit(after))[before == 0].any():
            return i
    return None


def nonfinite_total(case: Case, group: Sequence[int]) -> float | None:
    """Return the norm of a group of gradients if it is NaN or infinite; None if all elements are finite."""
    arrays = [array for i in group if (array := case.gradients[i].array) is not None]
    return nonfinite_norm([decode(array.data, array.dtype) for array in arrays])


def is_silent(
    case: Case, group: Sequence[int], total: float, results: Sequence[Array | None]
) -> list[list[float]] | None:
    """Return the formula's results if the given results show neither these nor NaN everywhere; None if they do."""
    after = [float64_values(array) for i in group if (array := results[i]) is not None]
    arrays = [array for i in group if (array := case.gradients[i].array) is not None]
    formula = [nonfinite_consequence(decode(array.data, array.dtype), total) for array in arrays]
    if all(np.isnan(result).all() for result in after):
        return None
    if all(np.array_equal(r, f, equal_nan=True) for r, f in zip(after, formula, strict=True)):
        return None
    return formula
