"""Define mutants by norm and by global norm that compute a wrong norm, of the Euclidean order or of another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .steps import Array, ByGlobalNorm, Gradients, NormFunction
from .table import caught_by

# The norm.


@caught_by("scaled-above")
class ForgetsTheRoot(NormFunction):
    """Forget the square root."""

    def take_root(self, power_sum: float, p: float) -> float:
        return power_sum


@caught_by("scaled-above")
class MeanSquare(NormFunction):
    """Use the mean of the squares instead of their sum."""

    def sum_powers(self, values: Array, p: float) -> float:
        return super().sum_powers(values, p) / values.size


class _NormsOfMatrices(NormFunction):
    """Base of the mutants that compute an operator norm of a matrix."""

    induced_by: float

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        if p != self.induced_by:
            return super().compute_norm(tensors, p)
        each = [
            float(np.linalg.norm(one, p)) if one.ndim == 2 else super(_NormsOfMatrices, self).compute_norm([one], p)
            for one in tensors
        ]
        return super().compute_norm([np.array(each)], p)


@caught_by("p-norm")
class LargestColumn(_NormsOfMatrices):
    """Use the largest column sum as the 1-norm of a matrix, as `numpy.linalg.norm` does."""

    induced_by = 1.0


@caught_by("infinity-norm")
class LargestRow(_NormsOfMatrices):
    """Use the largest row sum as the infinity norm of a matrix, as `numpy.linalg.norm` does."""

    induced_by = math.inf


@caught_by("intermediate-range", dtypes=("float16", "float32"))
class QuotientFirst(NormFunction):
    """Divide by the norm in the gradient's dtype before multiplying, so that small elements vanish."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        quotient = self.scale_in_float64(grad, 1.0, norm).astype(grad.dtype)
        return np.asarray(quotient * grad.dtype.type(clip_norm))


@caught_by("global-norm.one-norm-over-all")
class LongOnesByTheirOwnNorm(ByGlobalNorm):
    """Clip gradients of more than 100 elements by their own norm."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, clip_norm, self.compute_norm([grad], 2.0) if grad.size > 100 else norm)


class _SumsInOneDtype(ByGlobalNorm):
    """Base of the mutants that convert all gradients to one gradient's dtype before computing the norm."""

    taken_from: int

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        with np.errstate(over="ignore"):
            return super().compute_global_norm([one.astype(tensors[self.taken_from].dtype) for one in tensors], p)


@caught_by("global-norm.mixed-dtypes", dtypes=("float16", "float32", "float64"))
class NormInTheLastDtype(_SumsInOneDtype):
    """Compute the norm in the last gradient's dtype."""

    taken_from = -1


# The defaults.


#: Finite orders other than 1 and 2.
OTHERS = (0.5, 1.5, 3.0)


@caught_by("p-norm")
class KnownOrdersOnly(NormFunction):
    """Use the Euclidean norm for any order outside a fixed list."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(tensors, p if p in (1.0, 2.0, math.inf, *OTHERS) else 2.0)


@caught_by("p-norm")
class IntegersAreEuclidean(NormFunction):
    """Use the Euclidean norm if the order is an integer."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(tensors, p if isinstance(p, float) else 2.0)


class _PowersInOneDtype(NormFunction):
    """Base of the mutants that sum powers of other orders in one dtype without scaling."""

    #: None stands for the gradients' own dtype.
    dtype: ClassVar[type[np.floating[Any]] | None] = None

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        values = self.join(tensors)
        if p not in OTHERS or not values.size or not np.isfinite(values).all():
            return super().compute_norm(tensors, p)
        with np.errstate(all="ignore"):
            powers = (np.abs(values) ** p).astype(self.dtype or tensors[0].dtype)
            return float(np.float64(np.add.accumulate(powers)[-1]) ** (1 / p))


@caught_by("half-not-accumulated-in-half", dtypes=("float16",))
class CubesInHalf(_PowersInOneDtype):
    """Sum powers of the orders 0.5, 1.5 and 3 in float16."""

    dtype = np.float16


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
