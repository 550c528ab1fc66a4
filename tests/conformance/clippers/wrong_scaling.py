"""Clippers by norm and by global norm that do the wrong thing above, at or below the threshold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .steps import Array, NormClipper
from .table import caught_by

# What is done above the threshold.


@caught_by("scaled-above")
class NeverClips(NormClipper):
    """Returns what it was given."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return False


@caught_by("scaled-above")
class FlipsTheSign(NormClipper):
    """Scales, and turns the direction round."""

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return -super().wide_scale(grad, clip_norm, norm)


@caught_by("scaled-above")
class LosesTheSign(NormClipper):
    """Scales magnitudes."""

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.abs(super().wide_scale(grad, clip_norm, norm))


@caught_by("scaled-above")
class ToUnitNorm(NormClipper):
    """Divides by the norm and forgets the threshold."""

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().wide_scale(grad, 1.0, norm)


@caught_by("scaled-above")
class InvertsTheCoefficient(NormClipper):
    """Multiplies by norm / clip_norm."""

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().wide_scale(grad, norm, clip_norm)


@caught_by("scaled-above")
class ScalesTwice(NormClipper):
    """Multiplies by the coefficient squared."""

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().wide_scale(super().wide_scale(grad, clip_norm, norm), clip_norm, norm)


@caught_by("scaled-above")
class MultipliesByTheThreshold(NormClipper):
    """Multiplies by clip_norm and forgets the norm."""

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().wide_scale(grad, clip_norm, 1.0)


@caught_by("scaled-above")
class ScalesToHalf(NormClipper):
    """Scales to half of the threshold."""

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().wide_scale(grad, clip_norm / 2, norm)


@caught_by("scaled-above")
class ClipsEachElement(NormClipper):
    """Limits each element to the threshold instead of scaling."""

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.clip(grad.astype(np.float64), -clip_norm, clip_norm)


@caught_by("scaled-above")
class AddsAnEpsilon(NormClipper):
    """Divides by norm + 1e-6, and documents it nowhere."""

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().wide_scale(grad, clip_norm, norm + 1e-6)


@caught_by("scaled-above", dtypes=("float16",))
class AddsAnEpsilonInHalf(NormClipper):
    """Divides by norm + 1e-4, which half precision shows for small norms only."""

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().wide_scale(grad, clip_norm, norm + 1e-4)


@caught_by("scaled-above")
class CutsTheCoefficientOff(NormClipper):
    """Rounds the coefficient to three decimal places."""

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return grad.astype(np.float64) * round(clip_norm / norm, 3)


@caught_by("scaled-above")
class CoefficientInHalf(NormClipper):
    """Rounds the coefficient to half precision."""

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return grad.astype(np.float64) * float(np.float16(clip_norm / norm))


@caught_by("scaled-above", dtypes=("float64",))
class CoefficientInSingle(NormClipper):
    """Rounds the coefficient of float64 gradients to float32."""

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return grad.astype(np.float64) * float(np.float32(clip_norm / norm))


@caught_by("scaled-above")
class WholeNumberThreshold(NormClipper):
    """Cuts the threshold to an integer."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, clip_norm if math.isinf(clip_norm) else float(int(clip_norm)), norm)


@caught_by("scaled-above")
class LeavesTheFirstElement(NormClipper):
    """Scales all elements but the first."""

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        result = super().wide_scale(grad, clip_norm, norm)
        result.flat[:1] = grad.flat[:1]
        return result


@caught_by("scaled-above")
class SmallCoefficientIgnored(NormClipper):
    """Leaves alone what is more than a thousand times above the threshold."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return super().is_above(norm, clip_norm) and not norm > 1000 * clip_norm


# At and below the threshold.


@caught_by("identity-below")
class AlwaysRescales(NormClipper):
    """Scales up what is below the threshold."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return norm != 0


@caught_by("identity-below")
class LosesMinusZero(NormClipper):
    """Adds 0.0 to everything, which turns -0.0 into 0.0."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result + grad.dtype.type(0)


@caught_by("identity-below")
class BelowThroughHalf(NormClipper):
    """Takes what is below the threshold through half precision and back."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if self.is_above(norm, clip_norm):
            return super().clip(grad, clip_norm, norm)
        return grad.astype(np.float16).astype(grad.dtype)


@caught_by("identity-below", dtypes=("float64",))
class BelowThroughSingle(NormClipper):
    """Takes what is below the threshold through float32 and back."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if self.is_above(norm, clip_norm):
            return super().clip(grad, clip_norm, norm)
        return grad.astype(np.float32).astype(grad.dtype)


@caught_by("identity-below")
class ZeroBelow(NormClipper):
    """Gives zeros where there is nothing to clip."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, clip_norm, norm) if self.is_above(norm, clip_norm) else np.zeros_like(grad)


@caught_by("identity-below")
class SmallFirstAndThenScaled(NormClipper):
    """Divides by the norm and multiplies by the lesser of norm and threshold, below the threshold too."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if norm == 0 or not math.isfinite(norm):
            return super().clip(grad, clip_norm, norm)
        one = grad.dtype.type
        return np.asarray(grad / one(norm) * one(min(norm, clip_norm)))


@caught_by("identity-below", "at-threshold")
class ScalesBelowToo(NormClipper):
    """Multiplies by clip_norm / max(norm, clip_norm) with an epsilon in the divisor."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if not (math.isfinite(norm) and math.isfinite(clip_norm)):
            return super().clip(grad, clip_norm, norm)
        return (grad.astype(np.float64) * (clip_norm / (max(norm, clip_norm) + 1e-6))).astype(grad.dtype)


@caught_by("at-threshold")
class EpsilonInTheComparison(NormClipper):
    """Multiplies by min(1, clip_norm / (norm + 1e-6)), and documents it nowhere."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return not clip_norm / (norm + 1e-6) >= 1

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().wide_scale(grad, clip_norm, norm + 1e-6)


@caught_by("at-threshold")
class ZeroAtTheThreshold(NormClipper):
    """Keeps what is below the threshold, scales what is above it, and forgets what is at it."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.zeros_like(grad) if norm == clip_norm else super().clip(grad, clip_norm, norm)


@caught_by("at-threshold")
class ComparesWithSlack(NormClipper):
    """Clips from a thousandth below the threshold on, to a thousandth below it."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return not norm < clip_norm * 0.999

    def wide_scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().wide_scale(grad, clip_norm * 0.999, norm)


@caught_by("neighbours-of-threshold")
class ComparesLoosely(NormClipper):
    """Takes a norm for the threshold when it is within a thousandth of it."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return super().is_above(norm, clip_norm) and not math.isclose(norm, clip_norm, rel_tol=1e-3)


@caught_by("neighbours-of-threshold")
class ScalesUpNearby(NormClipper):
    """Scales also what is a millionth below the threshold."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return norm != 0 and not norm <= clip_norm * (1 - 1e-6)


@caught_by("neighbours-of-threshold")
class ThresholdInHalf(NormClipper):
    """Compares with the threshold in half precision."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return not norm <= float(np.float16(clip_norm))


@caught_by("neighbours-of-threshold", dtypes=("float64",))
class ComparesInSingle(NormClipper):
    """Compares float64 norms in float32."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return not np.float32(norm) <= np.float32(clip_norm)
