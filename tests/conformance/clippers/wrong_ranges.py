"""Define clippers that guard against overflow and underflow only in some places."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .steps import Array, ByGlobalNorm, NormClipper
from .table import caught_by

EVERY_DTYPE = ("float16", "float32", "float64")


class _PlainSquares(NormClipper):
    """Base of the clippers that square in the dtype unless a check tells them to scale. The check misses some cases."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        if p != 2 or not tensors or not all(np.isfinite(tensor).all() for tensor in tensors):
            return super().compute_norm(tensors, p)
        with np.errstate(all="ignore"):
            squares = [np.square(tensor) for tensor in tensors]
            total = sum((np.sum(one, dtype=one.dtype) for one in squares), np.zeros((), tensors[0].dtype))
            largest = max((float(np.max(one, initial=0.0)) for one in squares), default=0.0)
        return super().compute_norm(tensors, p) if self.is_out_of_range(largest, float(total)) else math.sqrt(total)

    def is_out_of_range(self, largest: float, total: float) -> bool:
        """Tell whether the largest square or the sum of squares shows that a value is out of range."""
        raise NotImplementedError


@caught_by("overflow-of-squares", dtypes=EVERY_DTYPE)
class LooksAtTheLargestSquare(_PlainSquares):
    """Check only the largest square for overflow, not the sum of the squares."""

    def is_out_of_range(self, largest: float, total: float) -> bool:
        return largest == 0 or not math.isfinite(largest)


@caught_by("underflow-of-squares", dtypes=EVERY_DTYPE)
class LooksAtTheSum(_PlainSquares):
    """Check whether the sum of squares is zero or infinite, but not whether it is subnormal."""

    def is_out_of_range(self, largest: float, total: float) -> bool:
        return total == 0 or not math.isfinite(total)


@caught_by("global-norm.overflow-of-squares", dtypes=EVERY_DTYPE)
class AddsTheTensorsSquares(ByGlobalNorm):
    """Check only the largest of the tensors' squared norms for overflow, not their sum."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        if p != 2 or not tensors or not all(np.isfinite(tensor).all() for tensor in tensors):
            return super().compute_global_norm(tensors, p)
        with np.errstate(all="ignore"):
            squares = np.square(np.array([self.compute_norm([tensor], p) for tensor in tensors], tensors[0].dtype))
            largest = float(np.max(squares))
            total = np.sum(squares, dtype=squares.dtype)
        return math.sqrt(total) if 0 < largest < math.inf else super().compute_global_norm(tensors, p)


class _ScalesByOneTensor(ByGlobalNorm):
    """Base of the clippers that divide all tensors by the largest magnitude of a single tensor."""

    place: int

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        unit = float(np.max(np.abs(tensors[self.place]), initial=0.0)) if tensors else 0.0
        if p != 2 or unit == 0 or not math.isfinite(unit):
            return super().compute_global_norm(tensors, p)
        with np.errstate(all="ignore"):
            return unit * super().compute_global_norm([tensor / tensor.dtype.type(unit) for tensor in tensors], p)


@caught_by("overflow-of-squares", dtypes=EVERY_DTYPE)
class ScalesByTheFirstTensor(_ScalesByOneTensor):
    """Divide all tensors by the first tensor's largest magnitude, so that larger tensors overflow."""

    place = 0


@caught_by("overflow-of-squares", dtypes=EVERY_DTYPE)
class ScalesByTheLastTensor(_ScalesByOneTensor):
    """Divide all tensors by the last tensor's largest magnitude, so that larger tensors overflow."""

    place = -1


@caught_by("coefficient-underflow", dtypes=EVERY_DTYPE)
class CoefficientOfFewDigits(NormClipper):
    """Round clip_norm / norm to the gradient's dtype unless it becomes zero; a subnormal quotient loses digits."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        coefficient = grad.dtype.type(clip_norm / norm)
        return np.asarray(grad * coefficient) if coefficient else super().scale(grad, clip_norm, norm)
