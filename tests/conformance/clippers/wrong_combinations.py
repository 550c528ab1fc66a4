"""Define clippers whose defect shows only if several circumstances occur together."""

from __future__ import annotations

from typing import Any

import numpy as np

from .steps import Array, Clipper
from .table import caught_by


@caught_by("combinations", dtypes=("float32", "float64"))
class LosesTheEndOfLongExcluded(Clipper):
    """Zero the last element of an excluded float64 gradient of more than 512 elements."""

    def leave(self, grad: Array) -> Any:
        if grad.size <= 512 or grad.dtype != np.float64:
            return grad
        copy = grad.copy()
        copy.reshape(-1)[-1] = 0
        return copy


@caught_by("combinations")
class KeepsTheLastOfOddMatrices(Clipper):
    """Leave the last element unclipped if the gradient is a long matrix of odd width and is not contiguous."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        if grad.ndim != 2 or grad.shape[-1] % 2 == 0 or grad.size < 64 or grad.flags.c_contiguous:
            return result
        copy = result.copy()
        copy[-1, -1] = grad[-1, -1]
        return copy


@caught_by("combinations-extreme")
class ZeroesWhatOverflows(Clipper):
    """Return zeros if the squares of the elements overflow and the gradient has several axes."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        largest = np.max(np.abs(grad), initial=0.0)
        if grad.ndim < 2 or not np.isfinite(largest) or float(largest) < float(np.finfo(grad.dtype).max) ** 0.5:
            return result
        return np.zeros_like(result)
