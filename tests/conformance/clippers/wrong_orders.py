"""Clippers that are right for the Euclidean norm, and wrong for another order of the norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .steps import Array, ByGlobalNorm, Gradients, NormClipper
from .table import caught_by

#: The orders of which a magnitude is neither taken as it is, nor squared.
OTHERS = (0.5, 1.5, 3.0)


@caught_by("p-norm")
class KnownOrdersOnly(NormClipper):
    """Takes the Euclidean norm for those of orders that it does not know."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().norm(tensors, p if p in (1.0, 2.0, math.inf, *OTHERS) else 2.0)


@caught_by("p-norm")
class IntegersAreEuclidean(NormClipper):
    """Looks at the order only where it is a float."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().norm(tensors, p if isinstance(p, float) else 2.0)


class _PowersInOneDtype(NormClipper):
    """Shared by those that add powers of other orders up in one dtype, without scaling."""

    #: None: the gradients' own.
    dtype: ClassVar[type[np.floating[Any]] | None] = None

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        values = self.joined(tensors)
        if p not in OTHERS or not values.size or not np.isfinite(values).all():
            return super().norm(tensors, p)
        with np.errstate(all="ignore"):
            powers = (np.abs(values) ** p).astype(self.dtype or tensors[0].dtype)
            return float(np.float64(np.add.accumulate(powers)[-1]) ** (1 / p))


@caught_by("overflow-of-squares", "underflow-of-squares", dtypes=("float32", "float64"))
class CubesInTheDtype(_PowersInOneDtype):
    """Cubes the elements as they are, though it is careful with squares."""


@caught_by("overflow-of-squares", "underflow-of-squares", dtypes=("float32", "float64"))
class MagnitudesByWayOfSquares(NormClipper):
    """Takes the root of the square, in the dtype, for the magnitude."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        if p != 1:
            return super().norm(tensors, p)
        with np.errstate(all="ignore"):
            return super().norm([np.sqrt(np.square(tensor)) for tensor in tensors], p)


@caught_by("half-not-accumulated-in-half", dtypes=("float16",))
class CubesInHalf(_PowersInOneDtype):
    """Adds the cubes up in float16, though it adds squares up in a wider format."""

    dtype = np.float16


@caught_by("global-norm.excluded-not-counted")
class CountsTheExcludedInOtherOrders(ByGlobalNorm):
    """Counts excluded gradients in norms whose order is no integer."""

    def norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        every = [i for i, grad in enumerate(grads) if grad is not None]
        return super().norms(grads, every if p in (0.5, 1.5) else counted, p)


@caught_by("global-norm.excluded-not-counted")
class ReturnsTheNormOfAllInOtherOrders(ByGlobalNorm):
    """Clips by the norm of the included gradients, and returns that of all where it is not the Euclidean one."""

    def norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        counted_norms = super().norms(grads, counted, p)
        every = [grad for grad in grads if grad is not None]
        self.returned = counted_norms[0] if p == 2 else self.global_norm(every, p)
        return counted_norms

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return self.returned


@caught_by("global-norm.returned-norm")
class EuclideanWhereNothingIsClipped(ByGlobalNorm):
    """Returns the Euclidean norm, whatever was asked, where nothing is clipped."""

    def norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        self.euclidean = self.global_norm([grads[i] for i in counted], 2.0)
        return super().norms(grads, counted, p)

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return total if total > clip_norm else self.euclidean


@caught_by("global-norm.error-if-nonfinite")
class NoErrorInOtherOrders(ByGlobalNorm):
    """Looks at the flag on the way to the norms of the orders 1, 2 and infinity."""

    def norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        self.order = p
        return super().norms(grads, counted, p)

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        if self.order not in OTHERS:
            super().refuse_nonfinite(grads, norms)


@caught_by("global-norm.returned-norm-nonfinite")
class InfinityForNanInOtherOrders(ByGlobalNorm):
    """Returns infinity for a norm of another order that is NaN."""

    def norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        self.order = p
        return super().norms(grads, counted, p)

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return math.inf if self.order in OTHERS and math.isnan(total) else total
