"""Clippers that are wrong for some norms, numbers of elements or numbers of gradients only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, Clipper, Gradients, NormClipper
from .table import caught_by


@caught_by("nan-not-silent", "infinity-not-silent")
class LooksAtFewElements(NormClipper):
    """Leaves NaN and infinity out of the norm of more than a hundred elements."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        values = self.joined(tensors)
        return super().norm([values[np.isfinite(values)]] if values.size > 100 else tensors, p)


@caught_by("nan-not-silent", "infinity-not-silent")
class LooksAtVectorsAlone(NormClipper):
    """Leaves NaN and infinity out of the norm of a matrix."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().norm([np.where(np.isfinite(t), t, 0) if t.ndim > 1 else t for t in tensors], p)


@caught_by("nan-not-silent", "infinity-not-silent")
class LooksAtEuclideanNormsAlone(NormClipper):
    """Leaves NaN and infinity out of norms of other orders."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().norm(tensors if p == 2 else [np.where(np.isfinite(t), t, 0) for t in tensors], p)


@caught_by("zero-gradient")
class DividesZerosByOtherNorms(NormClipper):
    """Takes a norm of 0 for NaN where it is not the Euclidean one."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        total = super().norm(tensors, p)
        return math.nan if total == 0 and p != 2 else total


@caught_by("empty-tensor", "empty-list", "all-excluded")
class LargestOfNoElements(NormClipper):
    """Asks for the largest magnitude of a gradient without elements, or of no gradient, which raises."""

    def norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        if p == math.inf:
            max(max(abs(each) for each in grads[i].ravel().tolist()) for i in counted)
        return super().norms(grads, counted, p)


@caught_by("global-norm.excluded-not-counted")
class CountsExcludedInOtherNorms(ByGlobalNorm):
    """Leaves excluded gradients out of the Euclidean norm alone."""

    def norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        everything = [i for i, grad in enumerate(grads) if grad is not None]
        return super().norms(grads, counted if p == 2 else everything, p)


@caught_by("half-not-accumulated-in-half", dtypes=("float16",))
class MagnitudesInHalf(NormClipper):
    """Adds magnitudes up one after another in float16, and squares not."""

    def power_sum(self, values: Array, p: float) -> float:
        if p != 1:
            return super().power_sum(values, p)
        return float(np.add.accumulate(values.astype(np.float16), dtype=np.float16)[-1])


@caught_by("neighbours-of-threshold", dtypes=("float32", "float64"))
class TakesCloseForEqual(NormClipper):
    """Does nothing where the norm is close to the threshold, as `math.isclose` has it."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return super().is_above(norm, clip_norm) and not math.isclose(norm, clip_norm)


@caught_by("excluded-untouched")
class ClipsLongExcluded(Clipper):
    """Sets excluded gradients of more than a hundred elements to zero."""

    def leave(self, grad: Array) -> Any:
        return np.zeros_like(grad) if grad.size > 100 else grad


@caught_by("excluded-untouched")
class MissesExcludedAmongMany(Clipper):
    """Looks at the flags of the first eight gradients alone."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [*results[:8], *(None if one is None else one * one.dtype.type(0.5) for one in results[8:])]
