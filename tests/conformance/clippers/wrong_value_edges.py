"""Clippers by value that are wrong at zero bounds, and for NaN and infinity."""

from __future__ import annotations

import math

import numpy as np

from .steps import Array, ByValue
from .table import caught_by


@caught_by("value.zero-threshold")
class ZeroMeansNoLimit(ByValue):
    """Takes a max of 0 for none given."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(grad, low, high) if high else grad


@caught_by("value.zero-threshold")
class RefusesZeroBounds(ByValue):
    """Refuses a max of 0."""

    def bounds(self, low: float | None, high: float) -> tuple[float, float]:
        if high == 0:
            message = "max must be positive"
            raise ValueError(message)
        return super().bounds(low, high)


@caught_by("value.nan-stays")
class NanToUpper(ByValue):
    """Gives NaN the upper bound, as fmin does."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.asarray(np.fmax(np.fmin(grad, grad.dtype.type(high)), grad.dtype.type(low)))


@caught_by("value.nan-stays")
class NanToLower(ByValue):
    """Gives NaN the lower bound."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.asarray(np.fmin(np.fmax(grad, grad.dtype.type(low)), grad.dtype.type(high)))


@caught_by("value.nan-stays")
class NanToZero(ByValue):
    """Gives zero for NaN."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(np.nan_to_num(grad, nan=0.0, posinf=math.inf, neginf=-math.inf), low, high)


@caught_by("value.nan-stays")
class NanSpreads(ByValue):
    """Makes a whole tensor NaN of one element."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.full_like(grad, np.nan) if np.isnan(grad).any() else super().clip(grad, low, high)


@caught_by("value.nan-stays")
class LeavesTensorsWithNan(ByValue):
    """Does not clip a tensor that holds a NaN."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return grad if np.isnan(grad).any() else super().clip(grad, low, high)


@caught_by("value.infinity-clipped")
class InfinityStays(ByValue):
    """Leaves infinities alone."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.where(np.isinf(grad), grad, super().clip(grad, low, high))


@caught_by("value.infinity-clipped")
class InfinityBecomesNan(ByValue):
    """Reckons with differences, so that an infinity becomes NaN."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.where(np.isinf(grad), np.nan, super().clip(grad, low, high)).astype(grad.dtype)


@caught_by("value.infinity-clipped")
class InfinityIsLarge(ByValue):
    """Gives the largest number of the dtype for an infinity."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        limit = np.finfo(grad.dtype).max
        return np.where(np.isinf(grad), np.copysign(limit, grad), super().clip(grad, low, high)).astype(grad.dtype)


@caught_by("value.infinity-clipped")
class MinusInfinityToMax(ByValue):
    """Gives every infinity the upper bound."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(np.where(np.isinf(grad), math.inf, grad).astype(grad.dtype), low, high)


@caught_by("value.bounds")
class ZeroMeansNoMin(ByValue):
    """Takes a min of 0 for none given."""

    def bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return low or -high, high


@caught_by("value.bounds")
class MagnitudeOfMax(ByValue):
    """Forgets the sign of max."""

    def bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return super().bounds(low, abs(high))


@caught_by("value.bounds", dtypes=("float64",))
class BoundsInSingle(ByValue):
    """Rounds the bounds to float32."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(grad, float(np.float32(low)), float(np.float32(high)))


@caught_by("value.bounds")
class TinyBoundsMeanNone(ByValue):
    """Takes a range narrower than 1e-8 for none."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return grad if 0 < high < 1e-8 else super().clip(grad, low, high)


@caught_by("value.bounds")
class LargeMinMeansNone(ByValue):
    """Takes a min below -10,000 for none."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(grad, -math.inf if low < -10_000 else low, high)


@caught_by("value.bounds")
class LeavesTheLastBlock(ByValue):
    """Clips blocks of 32 elements, and leaves what does not fill one."""

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
    """Clips no more than the first 65,536 elements."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        flat = grad.reshape(-1)
        return np.concatenate([super().clip(flat[: 2**16], low, high), flat[2**16 :]]).reshape(grad.shape)


@caught_by("value.bounds")
class LeavesCubes(ByValue):
    """Leaves what has three dimensions."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return grad if grad.ndim == 3 else super().clip(grad, low, high)


@caught_by("value.bounds")
class LeavesKernels(ByValue):
    """Leaves what has four dimensions, as the kernel of a convolution."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return grad if grad.ndim == 4 else super().clip(grad, low, high)


@caught_by("value.inside-unchanged", dtypes=("float64",))
class LongOnesInSingle(ByValue):
    """Takes a detour over float32 for more than 64 elements."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        clipped = super().clip(grad, low, high)
        return clipped.astype(np.float32).astype(grad.dtype) if grad.size > 64 else clipped
