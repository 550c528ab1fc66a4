"""Define clippers that are wrong only for some norms or for some numbers of elements or gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, Clipper, Gradients, NormClipper
from .table import caught_by


@caught_by("nan-not-silent", "infinity-not-silent")
class LooksAtFewElements(NormClipper):
    """Leave NaN and infinity out of the norm of more than 100 elements."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        values = self.join(tensors)
        return super().compute_norm([values[np.isfinite(values)]] if values.size > 100 else tensors, p)


@caught_by("nan-not-silent", "infinity-not-silent")
class LooksAtVectorsAlone(NormClipper):
    """Leave NaN and infinity out of the norm of gradients with two or more dimensions."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm([np.where(np.isfinite(t), t, 0) if t.ndim > 1 else t for t in tensors], p)


@caught_by("nan-not-silent", "infinity-not-silent")
class LooksAtEuclideanNormsAlone(NormClipper):
    """Leave NaN and infinity out of all norms but the Euclidean one."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(tensors if p == 2 else [np.where(np.isfinite(t), t, 0) for t in tensors], p)


@caught_by("zero-gradient")
class DividesZerosByOtherNorms(NormClipper):
    """Treat a norm of 0 as NaN unless it is the Euclidean one."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        total = super().compute_norm(tensors, p)
        return math.nan if total == 0 and p != 2 else total


@caught_by("empty-tensor", "empty-list", "all-excluded")
class LargestOfNoElements(NormClipper):
    """Raise for the infinity norm of no elements, because `max` gets an empty sequence."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        if p == math.inf:
            max(max(abs(each) for each in grads[i].ravel().tolist()) for i in counted)
        return super().compute_norms(grads, counted, p)


@caught_by("global-norm.excluded-not-counted")
class CountsExcludedInOtherNorms(ByGlobalNorm):
    """Count excluded gradients in all norms but the Euclidean one."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        everything = [i for i, grad in enumerate(grads) if grad is not None]
        return super().compute_norms(grads, counted if p == 2 else everything, p)


@caught_by("half-not-accumulated-in-half", dtypes=("float16",))
class MagnitudesInHalf(NormClipper):
    """Sum magnitudes one by one in float16 for the 1-norm."""

    def sum_powers(self, values: Array, p: float) -> float:
        if p != 1:
            return super().sum_powers(values, p)
        return float(np.add.accumulate(values.astype(np.float16), dtype=np.float16)[-1])


@caught_by("neighbours-of-threshold", dtypes=("float32", "float64"))
class TakesCloseForEqual(NormClipper):
    """Do not clip if `math.isclose` says that the norm equals the threshold."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return super().is_above(norm, clip_norm) and not math.isclose(norm, clip_norm)


@caught_by("excluded-untouched")
class ClipsLongExcluded(Clipper):
    """Return zeros for excluded gradients of more than 100 elements."""

    def leave(self, grad: Array) -> Any:
        return np.zeros_like(grad) if grad.size > 100 else grad


@caught_by("excluded-untouched")
class MissesExcludedAmongMany(Clipper):
    """Halve all gradients after the eighth, excluded ones too."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [*results[:8], *(None if one is None else one * one.dtype.type(0.5) for one in results[8:])]
