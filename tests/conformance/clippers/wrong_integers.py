"""Define clippers that are wrong if the threshold is an integer."""

from __future__ import annotations

from typing import Any

import numpy as np

from .steps import Array, ByValue, NormClipper
from .table import caught_by


@caught_by("integer-threshold")
class IntegerQuotient(NormClipper):
    """Use integer division for the coefficient if the threshold is an integer."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        coefficient = clip_norm // norm if isinstance(clip_norm, int) else clip_norm / norm
        return (grad * coefficient).astype(grad.dtype)


@caught_by("integer-threshold")
class IntegerResults(ByValue):
    """Round the results to integers if the threshold is an integer."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        clipped = super().clip(grad, low, high)
        return clipped.astype(type(high)).astype(grad.dtype)


@caught_by("integer-threshold")
class FloatsAlone(NormClipper):
    """Refuse a threshold that is not a float."""

    def check(self, clip_norm: float) -> None:
        super().check(clip_norm)
        if not isinstance(clip_norm, float):
            message = f"clip_norm is {clip_norm!r}: give a float"
            raise TypeError(message)


@caught_by("value.integer-threshold")
class IntegersArePercentages(ByValue):
    """Treat an integer threshold as a percentage of the largest magnitude."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        part: Any = np.abs(grad).max(initial=0) / 100 if isinstance(high, int) else 1
        return super().clip(grad, low * part, high * part)
