"""Define mutants that are wrong with arguments of rare kinds, or with a tensor that occurs twice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByValue, ClipFunction, Gradients, NormFunction
from .table import caught_by


@caught_by("repeated-tensor-in-place", in_place=True)
class ScalesARepeatedTensorTwice(NormFunction):
    """Write each result into its gradient, so that a tensor that occurs twice is scaled twice."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        grad[...] = result
        return grad


@caught_by("bounds-rounded")
class BoundsOfHalfPrecision(ByValue):
    """Round the bounds to float16."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        below, above = super().fill_bounds(low, high)
        with np.errstate(over="ignore"):
            return float(np.float16(below)), float(np.float16(above))


def _is_minus(threshold: float) -> bool:
    return math.copysign(1.0, threshold) < 0


@caught_by("minus-zero-threshold")
class RefusesMinusZero(NormFunction):
    """Refuse -0.0 as if it were negative."""

    def check(self, clip_norm: float) -> None:
        super().check(-1.0 if _is_minus(clip_norm) else clip_norm)


@caught_by("minus-zero-threshold")
class MinusZeroIsNoBound(ByValue):
    """Treat a bound of -0.0 as no bound."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return grad if high == 0 and _is_minus(high) else super().clip(grad, low, high)


@caught_by("infinite-threshold-nonfinite")
class HidesNonfiniteUnderInfinity(NormFunction):
    """Replace NaN and infinity by finite numbers if the threshold is infinite."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.nan_to_num(grad) if math.isinf(clip_norm) else super().clip(grad, clip_norm, norm)


@caught_by("flag-kinds")
class NumbersAreIndices(ClipFunction):
    """Read flags that are numbers as the indices of the gradients to clip."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        if all(type(flag) is int for flag in need_clip):
            return sorted({flag for flag in need_clip if grads[flag] is not None})
        return super().select_included(grads, need_clip)


@caught_by("numpy-threshold")
class FloatsAlone(NormFunction):
    """Refuse a threshold that is not a Python float."""

    def check(self, clip_norm: float) -> None:
        if not isinstance(clip_norm, float):
            message = "clip_norm must be a float"
            raise TypeError(message)
        super().check(clip_norm)


@caught_by("value.numpy-threshold")
class FloatsAloneAsBounds(ByValue):
    """Refuse a bound that is not a Python float."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        if not isinstance(high, float):
            message = "max must be a float"
            raise TypeError(message)
        return super().fill_bounds(low, high)


@caught_by("no-warnings")
class WarnsForEachGradient(ClipFunction):
    """Divide by zero for each gradient; hide the result, but not the warning."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        np.ones(1) / np.zeros(1)
        return super().answer(grads, need_clip, results)
