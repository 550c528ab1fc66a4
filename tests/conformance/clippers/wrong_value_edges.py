"""Define clippers by value that are wrong for special bounds, NaN, infinity or some shapes."""

from __future__ import annotations

import math

import numpy as np

from .steps import Array, ByValue
from .table import caught_by


@caught_by("value.zero-threshold")
class ZeroMeansNoLimit(ByValue):
    """Do not clip if max is 0."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(grad, low, high) if high else grad


@caught_by("value.zero-threshold")
class RefusesZeroBounds(ByValue):
    """Refuse a max of 0."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        if high == 0:
            message = "max must be positive"
            raise ValueError(message)
        return super().fill_bounds(low, high)


@caught_by("value.nan-stays")
class NanToUpper(ByValue):
    """Replace NaN by the upper bound, as `fmin` does."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.asarray(np.fmax(np.fmin(grad, grad.dtype.type(high)), grad.dtype.type(low)))


@caught_by("value.nan-stays")
class NanToLower(ByValue):
    """Replace NaN by the lower bound, as `fmax` does."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.asarray(np.fmin(np.fmax(grad, grad.dtype.type(low)), grad.dtype.type(high)))


@caught_by("value.nan-stays")
class NanToZero(ByValue):
    """Replace NaN by zero."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(np.nan_to_num(grad, nan=0.0, posinf=math.inf, neginf=-math.inf), low, high)


@caught_by("value.nan-stays")
class NanSpreads(ByValue):
    """Turn the whole tensor into NaN if one element is NaN."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.full_like(grad, np.nan) if np.isnan(grad).any() else super().clip(grad, low, high)


@caught_by("value.nan-stays")
class LeavesTensorsWithNan(ByValue):
    """Do not clip tensors that hold NaN."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return grad if np.isnan(grad).any() else super().clip(grad, low, high)


@caught_by("value.infinity-clipped")
class InfinityStays(ByValue):
    """Do not clip infinity."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.where(np.isinf(grad), grad, super().clip(grad, low, high))


@caught_by("value.infinity-clipped")
class InfinityBecomesNan(ByValue):
    """Replace infinity by NaN."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.where(np.isinf(grad), np.nan, super().clip(grad, low, high)).astype(grad.dtype)


@caught_by("value.infinity-clipped")
class InfinityIsLarge(ByValue):
    """Replace infinity by the dtype's largest number instead of the bound."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        limit = np.finfo(grad.dtype).max
        return np.where(np.isinf(grad), np.copysign(limit, grad), super().clip(grad, low, high)).astype(grad.dtype)


@caught_by("value.infinity-clipped")
class MinusInfinityToMax(ByValue):
    """Replace minus infinity by the upper bound."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(np.where(np.isinf(grad), math.inf, grad).astype(grad.dtype), low, high)


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


@caught_by("value.bounds", dtypes=("float64",))
class BoundsInSingle(ByValue):
    """Round the bounds to float32."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(grad, float(np.float32(low)), float(np.float32(high)))


@caught_by("value.bounds")
class TinyBoundsMeanNone(ByValue):
    """Do not clip if max is below 1e-8."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return grad if 0 < high < 1e-8 else super().clip(grad, low, high)


@caught_by("value.bounds")
class LargeMinMeansNone(ByValue):
    """Ignore a min below -10,000."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(grad, -math.inf if low < -10_000 else low, high)


@caught_by("value.bounds")
class LeavesTheLastBlock(ByValue):
    """Clip blocks of 32 elements and leave the remainder unclipped."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        whole, flat = grad.size - grad.size % 32, grad.reshape(-1)
        clipped = super().clip(flat, low, high)
        return (
            np.concatenate([clipped[:whole], flat[whole:]]).reshape(grad.shape)
            if whole
            else clipped.reshape(grad.shape)
        )


@caught_by("value.bounds")
class CountsInSixteenBits(ByValue):
    """Clip only the first 65,536 elements."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        flat = grad.reshape(-1)
        return np.concatenate([super().clip(flat[: 2**16], low, high), flat[2**16 :]]).reshape(grad.shape)


@caught_by("value.bounds")
class LeavesCubes(ByValue):
    """Do not clip gradients of three dimensions."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return grad if grad.ndim == 3 else super().clip(grad, low, high)


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
