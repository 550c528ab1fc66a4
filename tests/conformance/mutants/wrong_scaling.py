"""Define mutants by norm and by global norm that are wrong above, at or below the threshold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .steps import Array, NormFunction
from .table import caught_by

# Above the threshold.


@caught_by("scaled-above")
class NeverClips(NormFunction):
    """Never clip."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return False


@caught_by("scaled-above")
class ToUnitNorm(NormFunction):
    """Scale to a norm of 1 instead of the threshold."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale_in_float64(grad, 1.0, norm)


@caught_by("scaled-above")
class InvertsTheCoefficient(NormFunction):
    """Multiply by norm / clip_norm."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale_in_float64(grad, norm, clip_norm)


@caught_by("scaled-above")
class ScalesTwice(NormFunction):
    """Multiply by the coefficient twice."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale_in_float64(super().scale_in_float64(grad, clip_norm, norm), clip_norm, norm)


@caught_by("scaled-above")
class ClipsEachElement(NormFunction):
    """Limit each element to the threshold instead of scaling."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.clip(grad.astype(np.float64), -clip_norm, clip_norm)


@caught_by("scaled-above", dtypes=("float16",))
class AddsAnEpsilonInHalf(NormFunction):
    """Divide by norm + 1e-4, which changes float16 results only if the norm is small."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale_in_float64(grad, clip_norm, norm + 1e-4)


# At and below the threshold.


@caught_by("identity-below")
class AlwaysRescales(NormFunction):
    """Scale gradients whose norm is below the threshold up to the threshold."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return norm != 0


@caught_by("identity-below")
class LosesMinusZero(NormFunction):
    """Add 0.0 to every result, which turns -0.0 into 0.0."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result + grad.dtype.type(0)


@caught_by("identity-below", "at-threshold")
class ScalesBelowToo(NormFunction):
    """Multiply by clip_norm / (max(norm, clip_norm) + 1e-6)."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if not (math.isfinite(norm) and math.isfinite(clip_norm)):
            return super().clip(grad, clip_norm, norm)
        return (grad.astype(np.float64) * (clip_norm / (max(norm, clip_norm) + 1e-6))).astype(grad.dtype)


@caught_by("at-threshold")
class EpsilonInTheComparison(NormFunction):
    """Multiply by min(1, clip_norm / (norm + 1e-6)) without documenting it."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return not clip_norm / (norm + 1e-6) >= 1

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale_in_float64(grad, clip_norm, norm + 1e-6)


@caught_by("at-threshold")
class ZeroAtTheThreshold(NormFunction):
    """Return zeros if the norm equals the threshold."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.zeros_like(grad) if norm == clip_norm else super().clip(grad, clip_norm, norm)


@caught_by("neighbours-of-threshold")
class ComparesLoosely(NormFunction):
    """Do not clip if the norm differs from the threshold by at most a thousandth."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return super().is_above(norm, clip_norm) and not math.isclose(norm, clip_norm, rel_tol=1e-3)


@caught_by("neighbours-of-threshold")
class ScalesUpNearby(NormFunction):
    """Scale up gradients whose norm is less than a millionth below the threshold."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return norm != 0 and not norm <= clip_norm * (1 - 1e-6)
