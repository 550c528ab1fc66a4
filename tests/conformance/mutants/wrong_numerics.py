"""Define mutants that compute with too narrow a range or too few digits, some of them only for large tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, NormFunction
from .table import caught_by


class _InItsOwnDtype(NormFunction):
    """Base of the mutants that square and sum all elements in one dtype without scaling."""

    #: None stands for the gradients' own dtype.
    dtype: type[np.floating[Any]] | None = None

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        if p != 2 or not tensors:
            return super().compute_norm(tensors, p)
        with np.errstate(all="ignore"):
            dtype = np.result_type(*tensors) if self.dtype is None else np.dtype(self.dtype)
            joined = np.concatenate([tensor.astype(dtype).ravel() for tensor in tensors])
            return float(np.sqrt(np.sum(np.square(joined), dtype=dtype)))


@caught_by("overflow-of-squares", "underflow-of-squares")
class SquaresInTheDtype(_InItsOwnDtype):
    """Square and sum float32 gradients in float32."""


@caught_by("overflow-of-squares")
class LimitsTheSquares(NormFunction):
    """Limit each square to 3.4e38 instead of scaling."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        values = self.join(tensors)
        if p != 2 or not np.isfinite(values).all():
            return super().compute_norm(tensors, p)
        return float(np.sqrt(np.sum(np.minimum(np.square(np.minimum(np.abs(values), 1e150)), 3.4e38))))


@caught_by("subnormal")
class FlushesSubnormals(NormFunction):
    """Treat subnormal elements as zero in the norm without declaring it."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(
            [np.where(np.abs(t) < np.finfo(t.dtype).tiny, t.dtype.type(0), t) for t in tensors], p
        )


@caught_by("subnormal")
class FlushesResults(NormFunction):
    """Return zero for subnormal results."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        result = super().scale(grad, clip_norm, norm)
        return np.where(np.abs(result) < np.finfo(result.dtype).tiny, result.dtype.type(0), result)


@caught_by("coefficient-underflow", dtypes=("float64",))
class CoefficientAlone(NormFunction):
    """Compute clip_norm / norm in float64, where it underflows."""

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return grad.astype(np.float64) * (clip_norm / norm)


@caught_by("half-not-accumulated-in-half", dtypes=("float16",))
class RunningSumInHalf(NormFunction):
    """Sum the squares one by one in float16."""

    def sum_powers(self, values: Array, p: float) -> float:
        with np.errstate(over="ignore"):
            return float(np.add.accumulate((values**p).astype(np.float16), dtype=np.float16)[-1])


@caught_by("half-not-accumulated-in-half", dtypes=("float16",))
class NormOfPiecesInHalf(NormFunction):
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
class SumOutOfRange(NormFunction):
    """Round the sum of squares to float16."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        values = self.join(tensors)
        if p != 2:
            return super().compute_norm(tensors, p)
        with np.errstate(over="ignore"):
            return float(np.sqrt(np.float64(np.float16(np.sum(np.square(values))))))


@caught_by("large-tensor-accuracy")
class AddsOneAfterAnother(NormFunction):
    """Sum the squares one by one in float32."""

    def sum_powers(self, values: Array, p: float) -> float:
        if not values.size:
            return 0.0
        return float(np.add.accumulate((values**p).astype(np.float32), dtype=np.float32)[-1])


EVERY_DTYPE = ("float16", "float32", "float64")


class _ScalesByOneTensor(ByGlobalNorm):
    """Base of the mutants that divide all tensors by the largest magnitude of a single tensor."""

    place: int

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        unit = float(np.max(np.abs(tensors[self.place]), initial=0.0)) if tensors else 0.0
        if p != 2 or unit == 0 or not math.isfinite(unit):
            return super().compute_global_norm(tensors, p)
        with np.errstate(all="ignore"):
            return unit * super().compute_global_norm([tensor / tensor.dtype.type(unit) for tensor in tensors], p)


@caught_by("overflow-of-squares", dtypes=EVERY_DTYPE)
class ScalesByTheLastTensor(_ScalesByOneTensor):
    """Divide all tensors by the last tensor's largest magnitude, so that larger tensors overflow."""

    place = -1


@caught_by("coefficient-underflow", dtypes=EVERY_DTYPE)
class CoefficientOfFewDigits(NormFunction):
    """Round clip_norm / norm to the gradient's dtype unless it becomes zero; a subnormal quotient loses digits."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        coefficient = grad.dtype.type(clip_norm / norm)
        return np.asarray(grad * coefficient) if coefficient else super().scale(grad, clip_norm, norm)


HALF_AND_SINGLE = ("float16", "float32")


@caught_by("large-tensor-accuracy", dtypes=HALF_AND_SINGLE, inexcusable=True)
class LargeOnesAreNan(NormFunction):
    """Return NaN for tensors of more than 50,000 elements."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.full_like(grad, math.nan) if grad.size > 50_000 else super().clip(grad, clip_norm, norm)


@caught_by("large-tensor-accuracy", dtypes=("float16",), inexcusable=True)
class LargeSumsInHalf(NormFunction):
    """Sum more than 50,000 squares in float16, where the sum stops growing."""

    def sum_powers(self, values: Array, p: float) -> float:
        if values.size <= 50_000:
            return super().sum_powers(values, p)
        return float(np.add.accumulate((values**p).astype(np.float16), dtype=np.float16)[-1])


@caught_by("coefficient-underflow", inexcusable=True)
class RefusesWhatItWouldErase(NormFunction):
    """Raise if clip_norm / norm underflows to zero in the gradient's dtype."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if 0 < clip_norm < float(np.finfo(grad.dtype).smallest_subnormal) * norm < math.inf:
            message = "the coefficient is zero"
            raise FloatingPointError(message)
        return super().clip(grad, clip_norm, norm)


@caught_by("norm-beyond-range", inexcusable=True)
class LimitsTheNorm(NormFunction):
    """Limit the norm to the largest number of the gradient's dtype."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale(grad, clip_norm, min(norm, float(np.finfo(grad.dtype).max)) if norm < math.inf else norm)
