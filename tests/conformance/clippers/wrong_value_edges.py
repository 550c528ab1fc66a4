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
