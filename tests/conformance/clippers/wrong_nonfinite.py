"""Clippers that are wrong where something is NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, Gradients, NormClipper
from .table import caught_by

# NaN and infinity in the gradients.


@caught_by("nan-not-silent")
class AnswersNotImplemented(NormClipper):
    """Returns NotImplemented where a norm is NaN."""

    def give(self, results: Any, total: float, clip_norm: float) -> Any:
        return NotImplemented if math.isnan(total) else super().give(results, total, clip_norm)


@caught_by("nan-not-silent")
class NanIsNotAbove(NormClipper):
    """Compares with `>`, which no NaN is."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return norm > clip_norm


@caught_by("nan-not-silent")
class SkipsNan(NormClipper):
    """Leaves NaN out of the norm."""

    def joined(self, tensors: Sequence[Array]) -> Array:
        values = super().joined(tensors)
        return values[~np.isnan(values)]


@caught_by("nan-not-silent")
class NanIsZero(NormClipper):
    """Puts zeros in the place of NaN."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.where(np.isnan(result), grad.dtype.type(0), result)


@caught_by("nan-not-silent")
class NanNormIsZero(NormClipper):
    """Takes a norm that is NaN for 0."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        norm = super().norm(tensors, p)
        return 0.0 if math.isnan(norm) else norm


@caught_by("nan-not-silent")
class NanNormIsLarge(NormClipper):
    """Takes a norm that is NaN for infinity, and loses the gradient."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.zeros_like(grad) if math.isnan(norm) else super().clip(grad, clip_norm, norm)


@caught_by("global-norm.nan-not-silent")
class NanHidesBehindTheLargest(ByGlobalNorm):
    """Takes the largest norm with Python's `max`, which a NaN that is not first does not reach."""

    def global_norm(self, tensors: Sequence[Array], p: float) -> float:
        norms = [super(NanHidesBehindTheLargest, self).global_norm([tensor], p) for tensor in tensors]
        largest = max([0.0, *norms])
        return super().global_norm(tensors, p) if math.isinf(largest) or not any(map(math.isnan, norms)) else largest


@caught_by("infinity-not-silent", "nan-not-silent")
class LeavesNonfiniteAlone(NormClipper):
    """Returns what it was given where the norm is not finite."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return math.isfinite(norm) and super().is_above(norm, clip_norm)


@caught_by("infinity-not-silent")
class InfinityIsNotCounted(NormClipper):
    """Leaves infinities out of the norm."""

    def joined(self, tensors: Sequence[Array]) -> Array:
        values = super().joined(tensors)
        return values[~np.isinf(values)]


@caught_by("infinity-not-silent")
class InfinityIsTheLargestNumber(NormClipper):
    """Takes the dtype's largest number for an infinity where it scales, and not in the norm."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(np.nan_to_num(grad, nan=np.nan), clip_norm, norm)


@caught_by("infinity-not-silent")
class InfinityBecomesTheThreshold(NormClipper):
    """Puts the threshold in the place of an infinity, and zeros elsewhere."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if not math.isinf(norm):
            return super().clip(grad, clip_norm, norm)
        return np.where(np.isinf(grad), np.copysign(clip_norm, grad), 0).astype(grad.dtype)


@caught_by("infinity-not-silent")
class MinusInfinityIsSilent(NormClipper):
    """Looks for plus infinity alone."""

    def joined(self, tensors: Sequence[Array]) -> Array:
        values = super().joined(tensors)
        return np.asarray(values[values != -math.inf])


# An infinite threshold.


@caught_by("infinite-threshold")
class InfinityTimesGradient(NormClipper):
    """Multiplies by clip_norm / norm whatever comes of it."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return grad * grad.dtype.type(math.inf) if math.isinf(clip_norm) else super().clip(grad, clip_norm, norm)


@caught_by("infinite-threshold")
class InfinityByInfinity(NormClipper):
    """Multiplies by clip_norm / max(norm, clip_norm), which is NaN for an infinite threshold."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.full_like(grad, np.nan) if math.isinf(clip_norm) else super().clip(grad, clip_norm, norm)


@caught_by("infinite-threshold")
class RefusesInfinity(NormClipper):
    """Refuses an infinite threshold."""

    def check(self, clip_norm: float) -> None:
        super().check(clip_norm)
        int(clip_norm)


@caught_by("infinite-threshold")
class InfinityThroughDivision(NormClipper):
    """Divides by the threshold, and gives zeros where it is infinite."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return grad / grad.dtype.type(math.inf) if math.isinf(clip_norm) else super().clip(grad, clip_norm, norm)


# The error flag.


@caught_by("global-norm.error-if-nonfinite")
class IgnoresTheFlag(ByGlobalNorm):
    """Takes error_if_nonfinite and does nothing with it."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        return


@caught_by("global-norm.error-if-nonfinite")
class RaisesForNanOnly(ByGlobalNorm):
    """Raises for NaN, and not for infinity."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        if any(map(math.isnan, norms)):
            super().refuse_nonfinite(grads, norms)


@caught_by("global-norm.error-if-nonfinite")
class RaisesForInfinityOnly(ByGlobalNorm):
    """Raises for infinity, and not for NaN."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        if any(map(math.isinf, norms)):
            super().refuse_nonfinite(grads, norms)


@caught_by("global-norm.error-if-nonfinite")
class RaisesAlways(ByGlobalNorm):
    """Raises whenever the flag is set."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        super().refuse_nonfinite(grads, [math.nan])


@caught_by("global-norm.error-if-nonfinite", "nan-not-silent", "infinity-not-silent")
class RaisesUnasked(ByGlobalNorm):
    """Raises for a norm that is not finite, whether the flag is set or not."""

    def norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        norms = super().norms(grads, counted, p)
        self.refuse_nonfinite(grads, norms)
        return norms


@caught_by("global-norm.error-if-nonfinite")
class LooksAtTheFirstTensor(ByGlobalNorm):
    """Raises where the first gradient is not finite."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        super().refuse_nonfinite(grads, [float(np.sum(grads[0]))])


@caught_by("global-norm.error-if-nonfinite")
class WarnsInsteadOfRaising(ByGlobalNorm):
    """Gives None for the norm instead of raising."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        self.warned = not math.isfinite(norms[0])


@caught_by("global-norm.error-if-nonfinite-atomic")
class RaisesAfterTheFact(ByGlobalNorm):
    """Scales in place, and raises then."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        if not math.isfinite(norms[0]):
            for grad in grads:
                grad[...] = grad * grad.dtype.type(1 / norms[0])
        super().refuse_nonfinite(grads, norms)


@caught_by("global-norm.error-if-nonfinite-atomic")
class ZerosBeforeRaising(ByGlobalNorm):
    """Sets the first gradient to zero before it raises."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        if not math.isfinite(norms[0]):
            grads[0][...] = 0
        super().refuse_nonfinite(grads, norms)


@caught_by("global-norm.error-if-nonfinite-atomic")
class CleansBeforeRaising(ByGlobalNorm):
    """Puts numbers in the place of NaN and infinity before it raises."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        for grad in grads:
            np.nan_to_num(grad, copy=False)
        super().refuse_nonfinite(grads, norms)


@caught_by("global-norm.error-if-nonfinite")
class NoErrorForInfinityNorm(ByGlobalNorm):
    """Looks at the flag on the way to other norms than the infinity norm."""

    def norms(self, grads: list[Array], counted: Sequence[int], p: float) -> list[float]:
        self.order = p
        return super().norms(grads, counted, p)

    def refuse_nonfinite(self, grads: list[Array], norms: Sequence[float]) -> None:
        if self.order != math.inf:
            super().refuse_nonfinite(grads, norms)


@caught_by("global-norm.error-if-nonfinite")
class ErrorForExcludedNonfinite(ByGlobalNorm):
    """Looks for NaN and infinity in every gradient, excluded or not."""

    def refuse_nonfinite(self, grads: list[Array], norms: Sequence[float]) -> None:
        for grad in grads:
            super().refuse_nonfinite(grads, [1.0 if grad is None else float(np.sum(np.abs(grad)))])
