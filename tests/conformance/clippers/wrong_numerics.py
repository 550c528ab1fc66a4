"""Define clippers that compute with too narrow a range or with too few digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, NormClipper
from .table import caught_by


class _InItsOwnDtype(NormClipper):
    """Base of the clippers that square and sum all elements in one dtype without scaling."""

    #: None stands for the gradients' own dtype.
    dtype: type[np.floating[Any]] | None = None

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        if p != 2 or not tensors:
            return super().compute_norm(tensors, p)
        with np.errstate(all="ignore"):
            dtype = np.result_type(*tensors) if self.dtype is None else np.dtype(self.dtype)
            joined = np.concatenate([tensor.astype(dtype).ravel() for tensor in tensors])
            return float(np.sqrt(np.sum(np.square(joined), dtype=dtype)))


@caught_by("scaled-above")
class LeavesOutTheRemainder(NormClipper):
    """Sum blocks of 4,096 elements and forget the remainder."""

    def sum_powers(self, values: Array, p: float) -> float:
        whole = values.size // 4096 * 4096
        return super().sum_powers(values[:whole] if whole else values, p)


@caught_by("overflow-of-squares", "underflow-of-squares")
class SquaresInTheDtype(_InItsOwnDtype):
    """Square and sum float32 gradients in float32."""


@caught_by("overflow-of-squares", "underflow-of-squares", dtypes=("float64",))
class SquaresWithoutScaling(_InItsOwnDtype):
    """Square float64 gradients without scaling them first."""


@caught_by("overflow-of-squares", "underflow-of-squares", "half-not-accumulated-in-half", dtypes=("float16",))
class SquaresInHalf(_InItsOwnDtype):
    """Square and sum float16 gradients in float16."""


@caught_by("overflow-of-squares", dtypes=("float64",))
class DoublesThroughSingle(_InItsOwnDtype):
    """Compute the norm of float64 gradients in float32."""

    dtype = np.float32


@caught_by("overflow-of-squares")
class LargeIsInfinite(NormClipper):
    """Treat a norm above 1e18 as infinite."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        norm = super().compute_norm(tensors, p)
        return math.inf if norm > 1e18 else norm


@caught_by("overflow-of-squares")
class LimitsTheSquares(NormClipper):
    """Limit each square to 3.4e38 instead of scaling."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        values = self.join(tensors)
        if p != 2 or not np.isfinite(values).all():
            return super().compute_norm(tensors, p)
        return float(np.sqrt(np.sum(np.minimum(np.square(np.minimum(np.abs(values), 1e150)), 3.4e38))))


@caught_by("underflow-of-squares", "subnormal")
class SmallIsZero(NormClipper):
    """Treat a norm below 1e-20 as zero."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        norm = super().compute_norm(tensors, p)
        return 0.0 if norm < 1e-20 else norm


@caught_by("underflow-of-squares")
class EpsilonUnderTheRoot(NormClipper):
    """Add 1e-30 to the sum of squares."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        norm = super().compute_norm(tensors, p)
        return math.hypot(norm, 1e-15) if math.isfinite(norm) and p == 2 else norm


@caught_by("subnormal")
class FlushesSubnormals(NormClipper):
    """Treat subnormal elements as zero in the norm without declaring it."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(
            [np.where(np.abs(t) < np.finfo(t.dtype).tiny, t.dtype.type(0), t) for t in tensors], p
        )


@caught_by("subnormal")
class FlushesResults(NormClipper):
    """Return zero for subnormal results."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        result = super().scale(grad, clip_norm, norm)
        return np.where(np.abs(result) < np.finfo(result.dtype).tiny, result.dtype.type(0), result)


@caught_by("coefficient-underflow")
class CoefficientInTheDtype(NormClipper):
    """Round clip_norm / norm to the gradient's dtype, where it underflows."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(grad * grad.dtype.type(clip_norm / norm))


@caught_by("coefficient-underflow", dtypes=("float64",))
class CoefficientAlone(NormClipper):
    """Compute clip_norm / norm in float64, where it underflows."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return grad.astype(np.float64) * (clip_norm / norm)


@caught_by("half-not-accumulated-in-half", dtypes=("float16",))
class RunningSumInHalf(NormClipper):
    """Sum the squares one by one in float16."""

    def sum_powers(self, values: Array, p: float) -> float:
        with np.errstate(over="ignore"):
            return float(np.add.accumulate((values**p).astype(np.float16), dtype=np.float16)[-1])


@caught_by("half-not-accumulated-in-half", dtypes=("float16",))
class NormOfPiecesInHalf(NormClipper):
    """Add the sums of blocks of 64 squares in float16."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        values = self.join(tensors)
        if p != 2 or values.size < 64:
            return super().compute_norm(tensors, p)
        pieces = np.array_split(np.square(values), values.size // 64)
        with np.errstate(over="ignore"):
            total = np.float16(0)
            for piece in pieces:
                total = np.float16(total + np.float16(np.sum(piece)))
            return float(np.sqrt(np.float64(total)))


@caught_by("half-not-accumulated-in-half", dtypes=("float16",))
class SumOutOfRange(NormClipper):
    """Round the sum of squares to float16."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        values = self.join(tensors)
        if p != 2:
            return super().compute_norm(tensors, p)
        with np.errstate(over="ignore"):
            return float(np.sqrt(np.float64(np.float16(np.sum(np.square(values))))))


@caught_by("large-tensor-accuracy")
class AddsOneAfterAnother(NormClipper):
    """Sum the squares one by one in float32."""

    def sum_powers(self, values: Array, p: float) -> float:
        if not values.size:
            return 0.0
        return float(np.add.accumulate((values**p).astype(np.float32), dtype=np.float32)[-1])


@caught_by("global-norm.large-tensor-accuracy")
class ReturnsARoughNorm(ByGlobalNorm):
    """Round the returned norm to five digits."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return float(f"{total:.5g}") if math.isfinite(total) else total
