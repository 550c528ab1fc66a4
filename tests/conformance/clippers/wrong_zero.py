"""Define clippers that are wrong if a norm or a threshold is zero."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, NormClipper
from .table import caught_by

# A norm of zero.


class _DividesByZero(NormClipper):
    """Base of the clippers that divide by a zero norm."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return norm == 0 or super().is_above(norm, clip_norm)

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            if norm == 0:
                return np.asarray(grad * np.minimum(1.0, np.float64(clip_norm) / np.float64(norm)))
        return super().scale_in_float64(grad, clip_norm, norm)


@caught_by("zero-gradient")
class ScalesZerosToTheThreshold(NormClipper):
    """Return NaN for a gradient of zeros, because clip_norm / 0 is infinite."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.full_like(grad, np.nan) if norm == 0 else super().clip(grad, clip_norm, norm)


@caught_by("zero-gradient")
class RaisesForZeroNorm(NormClipper):
    """Raise if the norm is 0, because Python refuses to divide by zero."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        clip_norm / norm
        return super().clip(grad, clip_norm, norm)


@caught_by("zero-gradient")
class EpsilonForZeros(NormClipper):
    """Replace zeros in the results by a small number."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.where(result == 0, np.finfo(result.dtype).eps, result).astype(result.dtype)


@caught_by("global-norm.zero-gradient")
class NanForZeroNorm(ByGlobalNorm):
    """Return NaN in place of a norm of 0."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return total if total else math.nan


@caught_by("global-norm.zero-gradient")
class EpsilonForZeroNorm(ByGlobalNorm):
    """Return 1e-12 in place of a norm of 0."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return total or 1e-12


@caught_by("zero-gradient-zero-threshold")
class ZeroByZero(_DividesByZero):
    """Divide 0 by 0 if both the threshold and the norm are 0."""


@caught_by("zero-gradient-zero-threshold")
class RaisesForZeroByZero(NormClipper):
    """Raise if both the threshold and the norm are 0."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if norm == clip_norm == 0:
            message = "division by zero"
            raise ZeroDivisionError(message)
        return super().clip(grad, clip_norm, norm)


@caught_by("zero-gradient-zero-threshold")
class OnesForZeroByZero(NormClipper):
    """Return ones if both the threshold and the norm are 0."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.ones_like(grad) if norm == clip_norm == 0 else super().clip(grad, clip_norm, norm)


@caught_by("zero-threshold")
class ZeroMeansOff(NormClipper):
    """Do not clip if the threshold is 0."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return bool(clip_norm) and super().is_above(norm, clip_norm)


@caught_by("zero-threshold")
class ZeroMeansOne(NormClipper):
    """Treat a threshold of 0 as 1."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, clip_norm or 1.0, norm)


@caught_by("zero-threshold")
class RefusesZero(NormClipper):
    """Refuse a threshold of 0."""

    def check(self, clip_norm: float) -> None:
        super().check(clip_norm)
        if clip_norm == 0:
            message = "clip_norm must be positive"
            raise ValueError(message)


@caught_by("zero-threshold")
class NanForZeroThreshold(NormClipper):
    """Return NaN if the threshold is 0."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, clip_norm, norm) if clip_norm else np.full_like(grad, np.nan)


@caught_by("zero-threshold")
class SmallForZeroThreshold(NormClipper):
    """Replace a threshold of 0 by 1e-6."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, max(clip_norm, 1e-6), norm)
