"""Define mutants that break a relation between two calls, or between a result and its input, for any numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import wrong_exclusion, wrong_norms, wrong_scaling, wrong_totals, wrong_value
from .steps import Array, ByValue, ClipFunction, NormFunction
from .table import caught_by

# These rules must also catch mutants of other modules.
for mutation, rules in (
    (wrong_value.WholeNumberBounds, ("value.power-of-two-scaling",)),
    (wrong_scaling.NeverClips, ("norm-bounded",)),
    (wrong_scaling.ClipsEachElement, ("direction-kept",)),
    (wrong_norms.MeanSquare, ("zeros-added", "norm-bounded")),
    (wrong_totals.NormOfTheFirst, ("norm.tensor-order", "norm.norm-bounded")),
    (wrong_totals.ForgetsTheLastTensor, ("global-norm.tensor-order",)),
    (wrong_totals.OwnInsteadOfGlobal, ("global-norm.splitting-and-joining", "global-norm.direction-kept")),
    (wrong_totals.SumOfNorms, ("global-norm.splitting-and-joining",)),
    (wrong_exclusion.CountsTheExcluded, ("global-norm.excluded-added",)),
    (wrong_exclusion.NoneCountsAsOne, ("global-norm.none-added",)),
    (wrong_value.FirstTensorOnly, ("value.tensor-order",)),
):
    caught_by(*rules)(mutation)


@caught_by("twice-is-once")
class ShrinksAlways(ClipFunction):
    """Halve every result."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result * result.dtype.type(0.5)


@caught_by("power-of-two-scaling")
class AddsAHundredth(NormFunction):
    """Divide by norm + 0.01."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale_in_float64(grad, clip_norm, norm + 0.01)


@caught_by("zeros-added")
class LeavesLongTensorsAlone(ClipFunction):
    """Do not clip gradients of ten or more elements."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.size < 10 else grad


@caught_by("value.splitting-and-joining")
class LeavesSingleElementsAlone(ByValue):
    """Do not clip gradients of fewer than four elements."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(grad, low, high) if grad.size > 3 else grad


@caught_by("excluded-added")
class StopsAtTheExcluded(ClipFunction):
    """Stop clipping at the first excluded gradient."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        end = next((i for i, flag in enumerate(need_clip) if not flag), len(grads))
        return [i for i in super().select_included(grads, need_clip) if i < end]


@caught_by("none-added")
class ClipsUpToNone(ClipFunction):
    """Stop clipping at the first missing gradient."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        end = next((i for i, grad in enumerate(grads) if grad is None), len(grads))
        return [i for i in super().select_included(grads, need_clip) if i < end]


@caught_by("signs-kept")
class ZerosBecomeSmall(ClipFunction):
    """Replace each zero in the results by 1e-6."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.where(result == 0, result.dtype.type(1e-6), result)


@caught_by("value.infinite-bounds")
class InfiniteBoundMeansOff(ByValue):
    """Do not clip if either bound is infinite."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(grad, low, high) if math.isfinite(low) and math.isfinite(high) else grad
