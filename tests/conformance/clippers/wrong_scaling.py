"""Define clippers by norm and by global norm that are wrong above, at or below the threshold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .steps import Array, NormClipper
from .table import caught_by

# Above the threshold.


@caught_by("scaled-above")
class NeverClips(NormClipper):
    """Never clip."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return False


@caught_by("scaled-above")
class FlipsTheSign(NormClipper):
    """Flip the signs while scaling."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return -super().scale_in_float64(grad, clip_norm, norm)


@caught_by("scaled-above")
class LosesTheSign(NormClipper):
    """Scale the magnitudes and lose the signs."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.abs(super().scale_in_float64(grad, clip_norm, norm))


@caught_by("scaled-above")
class ToUnitNorm(NormClipper):
    """Scale to a norm of 1 instead of the threshold."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale_in_float64(grad, 1.0, norm)


@caught_by("scaled-above")
class InvertsTheCoefficient(NormClipper):
    """Multiply by norm / clip_norm."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale_in_float64(grad, norm, clip_norm)


@caught_by("scaled-above")
class ScalesTwice(NormClipper):
    """Multiply by the coefficient twice."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale_in_float64(super().scale_in_float64(grad, clip_norm, norm), clip_norm, norm)


@caught_by("scaled-above")
class MultipliesByTheThreshold(NormClipper):
    """Multiply by clip_norm without dividing by the norm."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale_in_float64(grad, clip_norm, 1.0)


@caught_by("scaled-above")
class ScalesToHalf(NormClipper):
    """Scale to half of the threshold."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale_in_float64(grad, clip_norm / 2, norm)


@caught_by("scaled-above")
class ClipsEachElement(NormClipper):
    """Limit each element to the threshold instead of scaling."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.clip(grad.astype(np.float64), -clip_norm, clip_norm)


@caught_by("scaled-above")
class AddsAnEpsilon(NormClipper):
    """Divide by norm + 1e-6 without documenting it."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale_in_float64(grad, clip_norm, norm + 1e-6)


@caught_by("scaled-above", dtypes=("float16",))
class AddsAnEpsilonInHalf(NormClipper):
    """Divide by norm + 1e-4, which changes float16 results only if the norm is small."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale_in_float64(grad, clip_norm, norm + 1e-4)


@caught_by("scaled-above")
class CutsTheCoefficientOff(NormClipper):
    """Round the coefficient to three decimal places."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return grad.astype(np.float64) * round(clip_norm / norm, 3)


@caught_by("scaled-above")
class CoefficientInHalf(NormClipper):
    """Round the coefficient to float16."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return grad.astype(np.float64) * float(np.float16(clip_norm / norm))


@caught_by("scaled-above", dtypes=("float64",))
class CoefficientInSingle(NormClipper):
    """Round the coefficient of float64 gradients to float32."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return grad.astype(np.float64) * float(np.float32(clip_norm / norm))


@caught_by("scaled-above")
class WholeNumberThreshold(NormClipper):
    """Round the threshold down to an integer."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, clip_norm if math.isinf(clip_norm) else float(int(clip_norm)), norm)


@caught_by("scaled-above")
class LeavesTheFirstElement(NormClipper):
    """Scale all elements but the first."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        result = super().scale_in_float64(grad, clip_norm, norm)
        result.flat[:1] = grad.flat[:1]
        return result


@caught_by("scaled-above")
class SmallCoefficientIgnored(NormClipper):
    """Do not clip if the norm is more than 1,000 times the threshold."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return super().is_above(norm, clip_norm) and not norm > 1000 * clip_norm


# At and below the threshold.


@caught_by("identity-below")
class AlwaysRescales(NormClipper):
    """Scale gradients whose norm is below the threshold up to the threshold."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return norm != 0


@caught_by("identity-below")
class LosesMinusZero(NormClipper):
    """Add 0.0 to every result, which turns -0.0 into 0.0."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result + grad.dtype.type(0)


@caught_by("identity-below")
class BelowThroughHalf(NormClipper):
    """Round gradients below the threshold to float16."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if self.is_above(norm, clip_norm):
            return super().clip(grad, clip_norm, norm)
        return grad.astype(np.float16).astype(grad.dtype)


@caught_by("identity-below", dtypes=("float64",))
class BelowThroughSingle(NormClipper):
    """Round gradients below the threshold to float32."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if self.is_above(norm, clip_norm):
            return super().clip(grad, clip_norm, norm)
        return grad.astype(np.float32).astype(grad.dtype)


@caught_by("identity-below")
class ZeroBelow(NormClipper):
    """Return zeros below the threshold."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, clip_norm, norm) if self.is_above(norm, clip_norm) else np.zeros_like(grad)


@caught_by("identity-below")
class SmallFirstAndThenScaled(NormClipper):
    """Divide by the norm and multiply by min(norm, clip_norm), even below the threshold."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if norm == 0 or not math.isfinite(norm):
            return super().clip(grad, clip_norm, norm)
        one = grad.dtype.type
        return np.asarray(grad / one(norm) * one(min(norm, clip_norm)))


@caught_by("identity-below", "at-threshold")
class ScalesBelowToo(NormClipper):
    """Multiply by clip_norm / (max(norm, clip_norm) + 1e-6)."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if not (math.isfinite(norm) and math.isfinite(clip_norm)):
            return super().clip(grad, clip_norm, norm)
        return (grad.astype(np.float64) * (clip_norm / (max(norm, clip_norm) + 1e-6))).astype(grad.dtype)


@caught_by("at-threshold")
class EpsilonInTheComparison(NormClipper):
    """Multiply by min(1, clip_norm / (norm + 1e-6)) without documenting it."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return not clip_norm / (norm + 1e-6) >= 1

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale_in_float64(grad, clip_norm, norm + 1e-6)


@caught_by("at-threshold")
class ZeroAtTheThreshold(NormClipper):
    """Return zeros if the norm equals the threshold."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.zeros_like(grad) if norm == clip_norm else super().clip(grad, clip_norm, norm)


@caught_by("at-threshold")
class ComparesWithSlack(NormClipper):
    """Use 0.999 of the threshold, both to compare and to scale."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return not norm < clip_norm * 0.999

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale_in_float64(grad, clip_norm * 0.999, norm)


@caught_by("neighbours-of-threshold")
class ComparesLoosely(NormClipper):
    """Do not clip if the norm differs from the threshold by at most a thousandth."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return super().is_above(norm, clip_norm) and not math.isclose(norm, clip_norm, rel_tol=1e-3)


@caught_by("neighbours-of-threshold")
class ScalesUpNearby(NormClipper):
    """Scale up gradients whose norm is less than a millionth below the threshold."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return norm != 0 and not norm <= clip_norm * (1 - 1e-6)


@caught_by("neighbours-of-threshold")
class ThresholdInHalf(NormClipper):
    """Compare the norm with the threshold rounded to float16."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return not norm <= float(np.float16(clip_norm))


@caught_by("neighbours-of-threshold", dtypes=("float64",))
class ComparesInSingle(NormClipper):
    """Compare float64 norms in float32."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return not np.float32(norm) <= np.float32(clip_norm)
