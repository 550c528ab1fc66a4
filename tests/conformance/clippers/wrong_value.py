"""Clippers by value with wrong bounds, or that change what is within them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .steps import Array, ByValue
from .table import caught_by


@caught_by("value.bounds")
class NoLimits(ByValue):
    """Returns what it was given."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return grad


@caught_by("value.bounds")
class UpperBoundOnly(ByValue):
    """Knows no lower bound."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.asarray(np.minimum(grad, grad.dtype.type(high)))


@caught_by("value.bounds", "value.min-defaults-to-minus-max")
class LowerBoundForgotten(ByValue):
    """Leaves alone what is below the lower bound."""

    def bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return -math.inf, high


@caught_by("value.bounds")
class LowerBoundOnly(ByValue):
    """Knows no upper bound."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.asarray(np.maximum(grad, grad.dtype.type(low)))


@caught_by("value.bounds")
class SymmetricAlways(ByValue):
    """Ignores min."""

    def bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return -high, high


@caught_by("value.bounds")
class WidestBounds(ByValue):
    """Takes the larger magnitude of the two bounds for both."""

    def bounds(self, low: float | None, high: float) -> tuple[float, float]:
        low, high = super().bounds(low, high)
        return -max(abs(low), abs(high)), max(abs(low), abs(high))


@caught_by("value.bounds")
class BoundsTheWrongWayRound(ByValue):
    """Gives an element that is beyond one bound the other bound."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.where(grad > high, low, np.where(grad < low, high, grad)).astype(grad.dtype)


@caught_by("value.bounds")
class ZeroOutside(ByValue):
    """Drops what is out of the bounds."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.where((grad >= low) & (grad <= high), grad, 0).astype(grad.dtype)


@caught_by("value.bounds")
class UpperForBoth(ByValue):
    """Gives an element below the lower bound the upper one."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.where((grad >= low) & (grad <= high), grad, high).astype(grad.dtype)


@caught_by("value.bounds")
class Reflects(ByValue):
    """Reflects at the upper bound what is beyond it."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        with np.errstate(invalid="ignore"):
            return super().clip(np.where(grad > high, 2 * high - grad, grad).astype(grad.dtype), low, high)


@caught_by("value.bounds")
class ScalesTheWhole(ByValue):
    """Scales a tensor until its largest magnitude is within the bounds."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        largest = float(np.max(np.abs(grad.astype(np.float64)), initial=0.0))
        factor = high / largest if math.isfinite(largest) and largest > high else 1.0
        return np.asarray(grad * grad.dtype.type(factor))


@caught_by("value.bounds")
class LimitsTheNorm(ByValue):
    """Takes max for the largest norm."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        norm = float(np.sqrt(np.sum(grad.astype(np.float64) ** 2)))
        factor = high / norm if math.isfinite(norm) and norm > abs(high) else 1.0
        return np.asarray(grad * grad.dtype.type(factor))


@caught_by("value.bounds")
class WholeNumberBounds(ByValue):
    """Cuts the bounds to integers."""

    def bounds(self, low: float | None, high: float) -> tuple[float, float]:
        low, high = super().bounds(low, high)
        return (low if math.isinf(low) else float(int(low))), (high if math.isinf(high) else float(int(high)))


@caught_by("value.bounds")
class FirstTensorOnly(ByValue):
    """Clips the first tensor alone."""

    def included(self, grads: Any, need_clip: Any) -> list[int]:
        return super().included(grads, need_clip)[:1]


@caught_by("value.bounds")
class VectorsOnly(ByValue):
    """Leaves matrices alone."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(grad, low, high) if grad.ndim < 2 else grad


@caught_by("value.bounds")
class SlightlyInside(ByValue):
    """Clips to a thousandth within the bounds."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.where(grad > high, high * 0.999, np.where(grad < low, low * 0.999, grad)).astype(grad.dtype)


@caught_by("value.bounds")
class SmoothBound(ByValue):
    """Squeezes with a hyperbolic tangent instead of clipping."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        middle, half = (low + high) / 2, (high - low) / 2 or 1.0
        return (middle + half * np.tanh((grad.astype(np.float64) - middle) / half)).astype(grad.dtype)


@caught_by("value.inside-unchanged")
class LosesMinusZeroInside(ByValue):
    """Adds 0.0 to everything, which turns -0.0 into 0.0."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result + grad.dtype.type(0)


@caught_by("value.inside-unchanged")
class ZeroAtTheBound(ByValue):
    """Drops an element that equals a bound."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.where((grad > low) & (grad < high), grad, 0).astype(grad.dtype)


@caught_by("value.inside-unchanged")
class InsideThroughHalf(ByValue):
    """Takes everything through half precision and back."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.clip(grad.astype(np.float16), np.float16(low), np.float16(high)).astype(grad.dtype)


@caught_by("value.inside-unchanged")
class WholeNumbers(ByValue):
    """Rounds elements to integers."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.rint(super().clip(grad, low, high))


@caught_by("value.inside-unchanged")
class ScalesToTheBound(ByValue):
    """Divides by max, clips to [-1, 1], and multiplies by max again."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        if low != -high or high == 0:
            return super().clip(grad, low, high)
        one = grad.dtype.type(high) * grad.dtype.type(1.1)
        return super().clip(grad / one * one, low, high)


@caught_by("value.inside-unchanged")
class SignTimesMagnitude(ByValue):
    """Puts the result together of sign and magnitude, and zeros have no sign."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(np.sign(grad) * np.abs(grad), low, high)


@caught_by("value.min-defaults-to-minus-max")
class ZeroByDefault(ByValue):
    """Takes 0 for min where it is not given."""

    def bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return (0.0 if low is None else low), high


@caught_by("value.min-defaults-to-minus-max")
class MinusOneByDefault(ByValue):
    """Takes -1 for min where it is not given."""

    def bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return (-1.0 if low is None else low), high


@caught_by("value.min-defaults-to-minus-max")
class MaxByDefault(ByValue):
    """Takes max for min where it is not given, and forgets the sign."""

    def bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return (high if low is None else low), high


@caught_by("value.min-defaults-to-minus-max")
class RaisesWithoutMin(ByValue):
    """Insists on min."""

    def bounds(self, low: float | None, high: float) -> tuple[float, float]:
        if low is None:
            message = "min is missing"
            raise TypeError(message)
        return low, high
