"""Clip in NumPy's long doubles, slowly and directly from the formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["agree", "clip_by_norm", "clip_by_value", "compute_norm"]

Array = np.ndarray[Any, Any]


def compute_norm(arrays: Sequence[Array], order: float) -> np.longdouble:
    """Return the norm of all elements together."""
    parts = [np.abs(array.astype(np.longdouble)).ravel() for array in arrays]
    values = np.concatenate([np.zeros(1, np.longdouble), *parts])
    largest = values.max()
    if np.isnan(values).any() or not np.isfinite(largest) or largest == 0 or order == math.inf:
        return np.longdouble(largest)
    # A norm of a tiny order is infinite. It is not compared with the returned norm.
    with np.errstate(over="ignore"):
        return np.longdouble(largest * ((values / largest) ** np.longdouble(order)).sum() ** (1 / np.longdouble(order)))


def clip_by_norm(array: Array, size: np.longdouble, threshold: float, eps: float) -> Array:
    """Return an array, in long doubles, scaled to a threshold by a given norm."""
    values = array.astype(np.longdouble)
    if eps == 0 and size <= threshold:
        return values
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = np.longdouble(threshold) / (size + np.longdouble(eps))
        return values * (factor if np.isnan(factor) else min(np.longdouble(1), factor))


def clip_by_value(array: Array, lower: float, upper: float) -> Array:
    """Return an array, in long doubles, clipped to bounds that are rounded to its dtype."""
    with np.errstate(over="ignore"):
        bounds = [array.dtype.type(bound) for bound in (lower, upper)]
    clipped: Array = np.minimum(np.maximum(array, bounds[0]), bounds[1]).astype(np.longdouble)
    return clipped


def agree(observed: Array, expected: Array, ulps: float) -> bool:
    """Return whether an array is within a number of ulp of the expected one. NaN equals NaN."""
    spacing = np.spacing(np.abs(expected.astype(observed.dtype))).astype(np.longdouble)
    limit = np.finfo(observed.dtype).max
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(observed.astype(np.longdouble) - expected) <= ulps * spacing
    # A number above the largest of the dtype, or just below it, may become infinite.
    beyond = np.isinf(observed) & (np.abs(expected) >= np.longdouble(limit) * (1 - 2.0**-9))
    same = (observed == expected) | (np.isnan(observed) & np.isnan(expected))
    return bool(np.all(near | same | (beyond & (np.sign(observed) == np.sign(expected)))))
