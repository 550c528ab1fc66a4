"""Define clippers that are right for the Euclidean norm and wrong for other orders of the norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .steps import Array, ByGlobalNorm, Gradients, NormClipper
from .table import caught_by

#: Finite orders other than 1 and 2.
OTHERS = (0.5, 1.5, 3.0)


@caught_by("p-norm")
class KnownOrdersOnly(NormClipper):
    """Use the Euclidean norm for any order outside a fixed list."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(tensors, p if p in (1.0, 2.0, math.inf, *OTHERS) else 2.0)


@caught_by("p-norm")
class IntegersAreEuclidean(NormClipper):
    """Use the Euclidean norm if the order is an integer."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(tensors, p if isinstance(p, float) else 2.0)


class _PowersInOneDtype(NormClipper):
    """Base of the clippers that sum powers of other orders in one dtype without scaling."""

    #: None stands for the gradients' own dtype.
    dtype: ClassVar[type[np.floating[Any]] | None] = None

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        values = self.join(tensors)
        if p not in OTHERS or not values.size or not np.isfinite(values).all():
            return super().compute_norm(tensors, p)
        with np.errstate(all="ignore"):
            powers = (np.abs(values) ** p).astype(self.dtype or tensors[0].dtype)
            return float(np.float64(np.add.accumulate(powers)[-1]) ** (1 / p))


@caught_by("overflow-of-squares", "underflow-of-squares", dtypes=("float32", "float64"))
class CubesInTheDtype(_PowersInOneDtype):
    """Sum powers of the orders 0.5, 1.5 and 3 in the gradient's dtype without scaling."""


@caught_by("overflow-of-squares", "underflow-of-squares", dtypes=("float32", "float64"))
class MagnitudesByWayOfSquares(NormClipper):
    """Compute the magnitudes for the 1-norm as roots of squares in the gradient's dtype."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        if p != 1:
            return super().compute_norm(tensors, p)
        with np.errstate(all="ignore"):
            return super().compute_norm([np.sqrt(np.square(tensor)) for tensor in tensors], p)


@caught_by("half-not-accumulated-in-half", dtypes=("float16",))
class CubesInHalf(_PowersInOneDtype):
    """Sum powers of the orders 0.5, 1.5 and 3 in float16."""

    dtype = np.float16


@caught_by("global-norm.excluded-not-counted")
class CountsTheExcludedInOtherOrders(ByGlobalNorm):
    """Count excluded gradients in norms of the orders 0.5 and 1.5."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        every = [i for i, grad in enumerate(grads) if grad is not None]
        return super().compute_norms(grads, every if p in (0.5, 1.5) else counted, p)


@caught_by("global-norm.excluded-not-counted")
class ReturnsTheNormOfAllInOtherOrders(ByGlobalNorm):
    """Count excluded gradients in the returned norm, unless it is the Euclidean norm."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        counted_norms = super().compute_norms(grads, counted, p)
        every = [grad for grad in grads if grad is not None]
        self.returned = counted_norms[0] if p == 2 else self.compute_global_norm(every, p)
        return counted_norms

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return self.returned


@caught_by("global-norm.returned-norm")
class EuclideanWhereNothingIsClipped(ByGlobalNorm):
    """Return the Euclidean norm if nothing is clipped, whatever `norm_type` says."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        self.euclidean = self.compute_global_norm([grads[i] for i in counted], 2.0)
        return super().compute_norms(grads, counted, p)

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return total if total > clip_norm else self.euclidean


@caught_by("global-norm.error-if-nonfinite")
class NoErrorInOtherOrders(ByGlobalNorm):
    """Ignore `error_if_nonfinite` for the orders 0.5, 1.5 and 3."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        self.order = p
        return super().compute_norms(grads, counted, p)

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        if self.order not in OTHERS:
            super().refuse_nonfinite(grads, norms)


@caught_by("global-norm.returned-norm-nonfinite")
class InfinityForNanInOtherOrders(ByGlobalNorm):
    """Return infinity instead of NaN for norms of the orders 0.5, 1.5 and 3."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        self.order = p
        return super().compute_norms(grads, counted, p)

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return math.inf if self.order in OTHERS and math.isnan(total) else total
