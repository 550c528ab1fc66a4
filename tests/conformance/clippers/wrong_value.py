"""Define clippers by value that use wrong bounds or change elements within the bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .steps import Array, ByValue
from .table import caught_by


@caught_by("value.bounds")
class NoLimits(ByValue):
    """Never clip."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return grad


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
class LowerBoundOnly(ByValue):
    """Ignore the upper bound."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.asarray(np.maximum(grad, grad.dtype.type(low)))


@caught_by("value.bounds")
class SymmetricAlways(ByValue):
    """Ignore min and always use -max."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return -high, high


@caught_by("value.bounds")
class WidestBounds(ByValue):
    """Use the larger magnitude of the two bounds for both."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        low, high = super().fill_bounds(low, high)
        return -max(abs(low), abs(high)), max(abs(low), abs(high))


@caught_by("value.bounds")
class BoundsTheWrongWayRound(ByValue):
    """Replace an element beyond one bound by the other bound."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.where(grad > high, low, np.where(grad < low, high, grad)).astype(grad.dtype)


@caught_by("value.bounds")
class ZeroOutside(ByValue):
    """Replace elements beyond the bounds by zero."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.where((grad >= low) & (grad <= high), grad, 0).astype(grad.dtype)


@caught_by("value.bounds")
class UpperForBoth(ByValue):
    """Replace elements below the lower bound by the upper one."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.where((grad >= low) & (grad <= high), grad, high).astype(grad.dtype)


@caught_by("value.bounds")
class Reflects(ByValue):
    """Reflect elements above the upper bound instead of limiting them."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        with np.errstate(invalid="ignore"):
            return super().clip(np.where(grad > high, 2 * high - grad, grad).astype(grad.dtype), low, high)


@caught_by("value.bounds")
class ScalesTheWhole(ByValue):
    """Scale the tensor until its largest magnitude is at most max."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        largest = float(np.max(np.abs(grad.astype(np.float64)), initial=0.0))
        factor = high / largest if math.isfinite(largest) and largest > high else 1.0
        return np.asarray(grad * grad.dtype.type(factor))


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


@caught_by("value.bounds")
class VectorsOnly(ByValue):
    """Do not clip gradients of two or more dimensions."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(grad, low, high) if grad.ndim < 2 else grad


@caught_by("value.bounds")
class SlightlyInside(ByValue):
    """Replace elements beyond a bound by 0.999 of the bound."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.where(grad > high, high * 0.999, np.where(grad < low, low * 0.999, grad)).astype(grad.dtype)


@caught_by("value.bounds")
class SmoothBound(ByValue):
    """Squeeze the elements with a hyperbolic tangent instead of clipping."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        middle, half = (low + high) / 2, (high - low) / 2 or 1.0
        return (middle + half * np.tanh((grad.astype(np.float64) - middle) / half)).astype(grad.dtype)


@caught_by("value.inside-unchanged")
class LosesMinusZeroInside(ByValue):
    """Add 0.0 to every result, which turns -0.0 into 0.0."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result + grad.dtype.type(0)


@caught_by("value.inside-unchanged")
class ZeroAtTheBound(ByValue):
    """Replace elements at or beyond a bound by zero."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return np.where((grad > low) & (grad < high), grad, 0).astype(grad.dtype)


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


@caught_by("value.inside-unchanged")
class SignTimesMagnitude(ByValue):
    """Rebuild elements from sign and magnitude, which loses the sign of -0.0."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(np.sign(grad) * np.abs(grad), low, high)


@caught_by("value.min-defaults-to-minus-max")
class ZeroByDefault(ByValue):
    """Use 0 for min if it is not passed."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return (0.0 if low is None else low), high


@caught_by("value.min-defaults-to-minus-max")
class MinusOneByDefault(ByValue):
    """Use -1 for min if it is not passed."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return (-1.0 if low is None else low), high


@caught_by("value.min-defaults-to-minus-max")
class MaxByDefault(ByValue):
    """Use max for min if it is not passed, forgetting the minus sign."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return (high if low is None else low), high


@caught_by("value.min-defaults-to-minus-max")
class RaisesWithoutMin(ByValue):
    """Raise if min is not passed."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        if low is None:
            message = "min is missing"
            raise TypeError(message)
        return low, high
