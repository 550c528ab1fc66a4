"""Define mutants by value that are wrong in their bounds, within the bounds, or for special values and shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .steps import Array, ByValue
from .table import caught_by


@caught_by("value.bounds")
class UpperBoundOnly(ByValue):
    """Ignore the lower bound."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.asarray(np.minimum(grad, grad.dtype.type(high)))


@caught_by("value.bounds", "value.min-defaults-to-minus-max")
class LowerBoundForgotten(ByValue):
    """Use minus infinity as the lower bound."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return -math.inf, high


@caught_by("value.bounds")
class LimitsTheNorm(ByValue):
    """Limit the norm to max instead of the elements."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        norm = float(np.sqrt(np.sum(grad.astype(np.float64) ** 2)))
        factor = high / norm if math.isfinite(norm) and norm > abs(high) else 1.0
        return np.asarray(grad * grad.dtype.type(factor))


@caught_by("value.bounds")
class WholeNumberBounds(ByValue):
    """Truncate the bounds to integers."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        low, high = super().fill_bounds(low, high)
        return (low if math.isinf(low) else float(int(low))), (high if math.isinf(high) else float(int(high)))


@caught_by("value.bounds")
class FirstTensorOnly(ByValue):
    """Clip only the first tensor."""

    def select_included(self, grads: Any, need_clip: Any) -> list[int]:
        return super().select_included(grads, need_clip)[:1]


@caught_by("value.inside-unchanged")
class LosesMinusZeroInside(ByValue):
    """Add 0.0 to every result, which turns -0.0 into 0.0."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result + grad.dtype.type(0)


@caught_by("value.inside-unchanged")
class InsideThroughHalf(ByValue):
    """Clip in float16."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.clip(grad.astype(np.float16), np.float16(low), np.float16(high)).astype(grad.dtype)


@caught_by("value.inside-unchanged")
class WholeNumbers(ByValue):
    """Round the results to integers."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.rint(super().clip(grad, low, high))


@caught_by("value.inside-unchanged")
class ScalesToTheBound(ByValue):
    """Divide by 1.1 times max and multiply by the same number again, so that results are rounded."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        if low != -high or high == 0:
            return super().clip(grad, low, high)
        one = grad.dtype.type(high) * grad.dtype.type(1.1)
        return super().clip(grad / one * one, low, high)


@caught_by("value.zero-threshold")
class RefusesZeroBounds(ByValue):
    """Refuse a max of 0."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        if high == 0:
            message = "max must be positive"
            raise ValueError(message)
        return super().fill_bounds(low, high)


@caught_by("value.infinity-clipped")
class InfinityStays(ByValue):
    """Do not clip infinity."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.where(np.isinf(grad), grad, super().clip(grad, low, high))


@caught_by("value.bounds")
class ZeroMeansNoMin(ByValue):
    """Treat a min of 0 as not passed."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return low or -high, high


@caught_by("value.bounds")
class MagnitudeOfMax(ByValue):
    """Ignore the sign of max."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return super().fill_bounds(low, abs(high))


@caught_by("value.bounds")
class LargeMinMeansNone(ByValue):
    """Ignore a min below -10,000."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(grad, -math.inf if low < -10_000 else low, high)


@caught_by("value.bounds")
class CountsInSixteenBits(ByValue):
    """Clip only the first 65,536 elements."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        flat = grad.reshape(-1)
        return np.concatenate([super().clip(flat[: 2**16], low, high), flat[2**16 :]]).reshape(grad.shape)


@caught_by("value.bounds")
class LeavesKernels(ByValue):
    """Do not clip gradients of four dimensions, as convolution kernels have."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return grad if grad.ndim == 4 else super().clip(grad, low, high)


@caught_by("value.inside-unchanged", dtypes=("float64",))
class LongOnesInSingle(ByValue):
    """Round gradients of more than 64 elements to float32."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        clipped = super().clip(grad, low, high)
        return clipped.astype(np.float32).astype(grad.dtype) if grad.size > 64 else clipped
