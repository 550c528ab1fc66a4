"""Define mutants that are wrong for special values: zero, NaN, infinity, some norms or numbers of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, ClipFunction, Gradients, NormFunction
from .table import caught_by


@caught_by("zero-gradient")
class DividesZerosByOtherNorms(NormFunction):
    """Treat a norm of 0 as NaN unless it is the Euclidean one."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        total = super().compute_norm(tensors, p)
        return math.nan if total == 0 and p != 2 else total


@caught_by("empty-tensor", "empty-list", "all-excluded")
class LargestOfNoElements(NormFunction):
    """Raise for the infinity norm of no elements, because `max` gets an empty sequence."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        if p == math.inf:
            max(max(abs(each) for each in grads[i].ravel().tolist()) for i in counted)
        return super().compute_norms(grads, counted, p)


@caught_by("half-not-accumulated-in-half", dtypes=("float16",))
class MagnitudesInHalf(NormFunction):
    """Sum magnitudes one by one in float16 for the 1-norm."""

    def sum_powers(self, values: Array, p: float) -> float:
        if p != 1:
            return super().sum_powers(values, p)
        return float(np.add.accumulate(values.astype(np.float16), dtype=np.float16)[-1])


@caught_by("neighbours-of-threshold", dtypes=("float32", "float64"))
class TakesCloseForEqual(NormFunction):
    """Do not clip if `math.isclose` says that the norm equals the threshold."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return super().is_above(norm, clip_norm) and not math.isclose(norm, clip_norm)


@caught_by("excluded-untouched")
class ClipsLongExcluded(ClipFunction):
    """Return zeros for excluded gradients of more than 100 elements."""

    def leave(self, grad: Array) -> Any:
        return np.zeros_like(grad) if grad.size > 100 else grad


@caught_by("excluded-untouched")
class MissesExcludedAmongMany(ClipFunction):
    """Halve all gradients after the eighth, excluded ones too."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [*results[:8], *(None if one is None else one * one.dtype.type(0.5) for one in results[8:])]


# A norm of zero.


class _DividesByZero(NormFunction):
    """Base of the mutants that divide by a zero norm."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return norm == 0 or super().is_above(norm, clip_norm)

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            if norm == 0:
                return np.asarray(grad * np.minimum(1.0, np.float64(clip_norm) / np.float64(norm)))
        return super().scale_in_float64(grad, clip_norm, norm)


@caught_by("zero-gradient")
class ScalesZerosToTheThreshold(NormFunction):
    """Return NaN for a gradient of zeros, because clip_norm / 0 is infinite."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.full_like(grad, np.nan) if norm == 0 else super().clip(grad, clip_norm, norm)


@caught_by("zero-gradient")
class RaisesForZeroNorm(NormFunction):
    """Raise if the norm is 0, because Python refuses to divide by zero."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        clip_norm / norm
        return super().clip(grad, clip_norm, norm)


@caught_by("zero-gradient-zero-threshold")
class ZeroByZero(_DividesByZero):
    """Divide 0 by 0 if both the threshold and the norm are 0."""


@caught_by("zero-threshold")
class ZeroMeansOff(NormFunction):
    """Do not clip if the threshold is 0."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return bool(clip_norm) and super().is_above(norm, clip_norm)


@caught_by("zero-threshold")
class SmallForZeroThreshold(NormFunction):
    """Replace a threshold of 0 by 1e-6."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, max(clip_norm, 1e-6), norm)


# NaN and infinity in the gradients.


@caught_by("nan-not-silent")
class AnswersNotImplemented(NormFunction):
    """Return NotImplemented if a norm is NaN."""

    def finish(self, results: Any, total: float, clip_norm: float) -> Any:
        return NotImplemented if math.isnan(total) else super().finish(results, total, clip_norm)


@caught_by("nan-not-silent")
class NanIsNotAbove(NormFunction):
    """Do not clip if the norm is NaN, because `NaN > clip_norm` is false."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return norm > clip_norm


@caught_by("infinity-not-silent", "nan-not-silent")
class LeavesNonfiniteAlone(NormFunction):
    """Do not clip if the norm is NaN or infinite."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return math.isfinite(norm) and super().is_above(norm, clip_norm)


@caught_by("infinity-not-silent")
class MinusInfinityIsSilent(NormFunction):
    """Leave minus infinity out of the norm."""

    def join(self, tensors: Sequence[Array]) -> Array:
        values = super().join(tensors)
        return np.asarray(values[values != -math.inf])


# An infinite threshold.


@caught_by("infinite-threshold")
class InfinityByInfinity(NormFunction):
    """Multiply by clip_norm / max(norm, clip_norm), which is NaN for an infinite threshold."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.full_like(grad, np.nan) if math.isinf(clip_norm) else super().clip(grad, clip_norm, norm)


# The option `error_if_nonfinite`.


@caught_by("global-norm.error-if-nonfinite")
class IgnoresTheFlag(ByGlobalNorm):
    """Ignore `error_if_nonfinite`."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        return


@caught_by("global-norm.error-if-nonfinite")
class NoErrorForInfinityNorm(ByGlobalNorm):
    """Ignore `error_if_nonfinite` for the infinity norm."""

    def compute_norms(self, grads: list[Array], counted: Sequence[int], p: float) -> list[float]:
        self.order = p
        return super().compute_norms(grads, counted, p)

    def refuse_nonfinite(self, grads: list[Array], norms: Sequence[float]) -> None:
        if self.order != math.inf:
            super().refuse_nonfinite(grads, norms)


@caught_by("global-norm.error-if-nonfinite")
class ErrorForExcludedNonfinite(ByGlobalNorm):
    """Raise the requested error also for NaN and infinity in excluded gradients."""

    def refuse_nonfinite(self, grads: list[Array], norms: Sequence[float]) -> None:
        for grad in grads:
            super().refuse_nonfinite(grads, [1.0 if grad is None else float(np.sum(np.abs(grad)))])
