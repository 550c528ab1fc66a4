"""Examine results without an oracle: elements that left the range, zeros, and norms that are not finite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradclip_adapters.contract import Array

from ...cases.model import Case
from ...oracle.arrays import decode
from ...oracle.formats import FORMATS, convert_to_dtype, read_float64_values, ulp
from ...oracle.model import Prediction
from ...oracle.nonfinite import list_nonfinite_norms, predict_nonfinite, shows_nonfinite
from ...oracle.question import get_bounds
from ..model import Context

__all__ = [
    "find_flipped_zero",
    "has_coarse_coefficient",
    "has_left_range",
    "list_expected_if_silent",
    "list_nonfinite_totals",
]


def has_left_range(case: Case, results: Sequence[Array | None]) -> bool:
    """Return whether arithmetic with a step beyond the range explains every included element.

    A coefficient that underflows, or a norm that overflows, gives zeros. A product that overflows gives infinities with
    the elements' signs. One infinity divided by another gives NaN.
    """
    pairs = [(given, got) for i in case.included if (given := case.gradients[i].array) and (got := results[i])]
    before = np.concatenate([read_float64_values(given) for given, _ in pairs])
    after = np.concatenate([read_float64_values(got) for _, got in pairs])
    with np.errstate(invalid="ignore"):
        return any(np.array_equal(after, before * what, equal_nan=True) for what in (0.0, math.inf, math.nan))


def has_coarse_coefficient(case: Case, prediction: Prediction, results: Sequence[Array | None]) -> bool:
    """Return whether a coefficient that is rounded to the spacing of subnormal numbers explains every element.

    A subnormal coefficient has few digits, so it may be far from the exact one. The distance is at most one spacing:
    half for the rounding of the coefficient, and half for the error of the norm. The product with an element is rounded
    as usual.
    """
    return all(_is_coarse(case, i, prediction, results[i]) for i in case.included)


def _is_coarse(case: Case, index: int, prediction: Prediction, got: Array | None) -> bool:
    given, expected = case.gradients[index].array, prediction.gradients[index]
    if given is None or got is None or expected is None:
        return False
    form, exact = FORMATS[given.dtype], expected.factor
    after = decode(convert_to_dtype(got, given.dtype), given.dtype)
    if exact >= form.smallest_normal or not after.is_finite:
        return False
    least, most = exact - form.smallest_subnormal, exact + form.smallest_subnormal
    for x, y in zip(expected.values.list_fractions(), after.list_fractions(), strict=True):
        if not x:
            if y:
                return False
            continue
        slack = 2 * ulp(y, form) / abs(x)
        least, most = max(least, y / x - slack), min(most, y / x + slack)
    return least <= most


def find_flipped_zero(context: Context, results: Sequence[Array | None]) -> int | None:
    """Return the first gradient in which a zero has changed its sign, if zero lies between the bounds."""
    case = context.case
    low, high = get_bounds(case)
    if context.through_optimizer or not low < 0 < high:
        return None
    for i in case.included:
        given, got = case.gradients[i].array, results[i]
        if given is None or got is None:
            continue
        before, after = read_float64_values(given), read_float64_values(got)
        if (np.signbit(before) != np.signbit(after))[before == 0].any():
            return i
    return None


def list_nonfinite_totals(case: Case, group: Sequence[int]) -> tuple[float, ...]:
    """Return the norms that a group of gradients may have if an element is not finite, or none if all are finite."""
    return list_nonfinite_norms(read_float64_values(array) for i in group if (array := case.gradients[i].array))


def list_expected_if_silent(
    case: Case, group: Sequence[int], totals: Sequence[float], results: Sequence[Array | None]
) -> list[np.ndarray[Any, Any]] | None:
    """Return the formula's results if the given results hide that the norm, one of `totals`, is not finite, or None."""
    before = [read_float64_values(array) for i in group if (array := case.gradients[i].array)]
    after = [read_float64_values(array) for i in group if (array := results[i])]
    return None if shows_nonfinite(before, after, totals) else [predict_nonfinite(one, totals[0]) for one in before]
