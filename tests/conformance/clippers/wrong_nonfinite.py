"""Define clippers that are wrong for NaN or infinity."""

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
    """Return NotImplemented if a norm is NaN."""

    def finish(self, results: Any, total: float, clip_norm: float) -> Any:
        return NotImplemented if math.isnan(total) else super().finish(results, total, clip_norm)


@caught_by("nan-not-silent")
class NanIsNotAbove(NormClipper):
    """Do not clip if the norm is NaN, because `NaN > clip_norm` is false."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return norm > clip_norm


@caught_by("nan-not-silent")
class SkipsNan(NormClipper):
    """Leave NaN out of the norm."""

    def join(self, tensors: Sequence[Array]) -> Array:
        values = super().join(tensors)
        return values[~np.isnan(values)]


@caught_by("nan-not-silent")
class NanIsZero(NormClipper):
    """Replace NaN by 0 in the results."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.where(np.isnan(result), grad.dtype.type(0), result)


@caught_by("nan-not-silent")
class NanNormIsZero(NormClipper):
    """Treat a NaN norm as 0."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        norm = super().compute_norm(tensors, p)
        return 0.0 if math.isnan(norm) else norm


@caught_by("nan-not-silent")
class NanNormIsLarge(NormClipper):
    """Treat a NaN norm as infinite and return zeros."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.zeros_like(grad) if math.isnan(norm) else super().clip(grad, clip_norm, norm)


@caught_by("global-norm.nan-not-silent")
class NanHidesBehindTheLargest(ByGlobalNorm):
    """Take the largest norm with Python's `max`, which can skip NaN."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        norms = [super(NanHidesBehindTheLargest, self).compute_global_norm([tensor], p) for tensor in tensors]
        largest = max([0.0, *norms])
        return (
            super().compute_global_norm(tensors, p)
            if math.isinf(largest) or not any(map(math.isnan, norms))
            else largest
        )


@caught_by("infinity-not-silent", "nan-not-silent")
class LeavesNonfiniteAlone(NormClipper):
    """Do not clip if the norm is NaN or infinite."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return math.isfinite(norm) and super().is_above(norm, clip_norm)


@caught_by("infinity-not-silent")
class InfinityIsNotCounted(NormClipper):
    """Leave infinity out of the norm."""

    def join(self, tensors: Sequence[Array]) -> Array:
        values = super().join(tensors)
        return values[~np.isinf(values)]


@caught_by("infinity-not-silent")
class InfinityIsTheLargestNumber(NormClipper):
    """Replace infinity by the dtype's largest number before scaling, but not in the norm."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(np.nan_to_num(grad, nan=np.nan), clip_norm, norm)


@caught_by("infinity-not-silent")
class InfinityBecomesTheThreshold(NormClipper):
    """Replace infinity by the threshold and all other elements by zero."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if not math.isinf(norm):
            return super().clip(grad, clip_norm, norm)
        return np.where(np.isinf(grad), np.copysign(clip_norm, grad), 0).astype(grad.dtype)


@caught_by("infinity-not-silent")
class MinusInfinityIsSilent(NormClipper):
    """Leave minus infinity out of the norm."""

    def join(self, tensors: Sequence[Array]) -> Array:
        values = super().join(tensors)
        return np.asarray(values[values != -math.inf])


# An infinite threshold.


@caught_by("infinite-threshold")
class InfinityTimesGradient(NormClipper):
    """Multiply by infinity if the threshold is infinite."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return grad * grad.dtype.type(math.inf) if math.isinf(clip_norm) else super().clip(grad, clip_norm, norm)


@caught_by("infinite-threshold")
class InfinityByInfinity(NormClipper):
    """Multiply by clip_norm / max(norm, clip_norm), which is NaN for an infinite threshold."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.full_like(grad, np.nan) if math.isinf(clip_norm) else super().clip(grad, clip_norm, norm)


@caught_by("infinite-threshold")
class RefusesInfinity(NormClipper):
    """Refuse an infinite threshold."""

    def check(self, clip_norm: float) -> None:
        super().check(clip_norm)
        int(clip_norm)


@caught_by("infinite-threshold")
class InfinityThroughDivision(NormClipper):
    """Divide by the threshold, which gives zeros if it is infinite."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return grad / grad.dtype.type(math.inf) if math.isinf(clip_norm) else super().clip(grad, clip_norm, norm)


# The option `error_if_nonfinite`.


@caught_by("global-norm.error-if-nonfinite")
class IgnoresTheFlag(ByGlobalNorm):
    """Ignore `error_if_nonfinite`."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        return


@caught_by("global-norm.error-if-nonfinite")
class RaisesForNanOnly(ByGlobalNorm):
    """Raise the requested error for NaN but not for infinity."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        if any(map(math.isnan, norms)):
            super().refuse_nonfinite(grads, norms)


@caught_by("global-norm.error-if-nonfinite")
class RaisesForInfinityOnly(ByGlobalNorm):
    """Raise the requested error for infinity but not for NaN."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        if any(map(math.isinf, norms)):
            super().refuse_nonfinite(grads, norms)


@caught_by("global-norm.error-if-nonfinite")
class RaisesAlways(ByGlobalNorm):
    """Raise whenever `error_if_nonfinite` is set, even for a finite norm."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        super().refuse_nonfinite(grads, [math.nan])


@caught_by("global-norm.error-if-nonfinite", "nan-not-silent", "infinity-not-silent")
class RaisesUnasked(ByGlobalNorm):
    """Raise for a nonfinite norm even if `error_if_nonfinite` is not set."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        norms = super().compute_norms(grads, counted, p)
        self.refuse_nonfinite(grads, norms)
        return norms


@caught_by("global-norm.error-if-nonfinite")
class LooksAtTheFirstTensor(ByGlobalNorm):
    """Check only the first gradient for NaN and infinity."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        super().refuse_nonfinite(grads, [float(np.sum(grads[0]))])


@caught_by("global-norm.error-if-nonfinite")
class WarnsInsteadOfRaising(ByGlobalNorm):
    """Set an attribute for a nonfinite norm instead of raising."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        self.warned = not math.isfinite(norms[0])


@caught_by("global-norm.error-if-nonfinite-atomic")
class RaisesAfterTheFact(ByGlobalNorm):
    """Scale the gradients in place before raising the error."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        if not math.isfinite(norms[0]):
            for grad in grads:
                grad[...] = grad * grad.dtype.type(1 / norms[0])
        super().refuse_nonfinite(grads, norms)


@caught_by("global-norm.error-if-nonfinite-atomic")
class ZerosBeforeRaising(ByGlobalNorm):
    """Set the first gradient to zero before raising the error."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        if not math.isfinite(norms[0]):
            grads[0][...] = 0
        super().refuse_nonfinite(grads, norms)


@caught_by("global-norm.error-if-nonfinite-atomic")
class CleansBeforeRaising(ByGlobalNorm):
    """Replace NaN and infinity in the input by finite numbers before raising the error."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        for grad in grads:
            np.nan_to_num(grad, copy=False)
        super().refuse_nonfinite(grads, norms)


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
