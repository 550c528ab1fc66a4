"""Clippers that look out for the ends of the range, and not everywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .steps import Array, ByGlobalNorm, NormClipper
from .table import caught_by

EVERY_DTYPE = ("float16", "float32", "float64")


class _PlainSquares(NormClipper):
    """Shared by those that square in the dtype unless something tells them not to, which is not told everywhere."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        if p != 2 or not tensors or not all(np.isfinite(tensor).all() for tensor in tensors):
            return super().norm(tensors, p)
        with np.errstate(all="ignore"):
            squares = [np.square(tensor) for tensor in tensors]
            total = sum((np.sum(one, dtype=one.dtype) for one in squares), np.zeros((), tensors[0].dtype))
            largest = max((float(np.max(one, initial=0.0)) for one in squares), default=0.0)
        return super().norm(tensors, p) if self.is_told(largest, float(total)) else math.sqrt(total)

    def is_told(self, largest: float, total: float) -> bool:
        """Whether the largest square, or the sum of all, says that something is out of the range."""
        raise NotImplementedError


@caught_by("overflow-of-squares", dtypes=EVERY_DTYPE)
class LooksAtTheLargestSquare(_PlainSquares):
    """Scales only where the largest square is out of the range: a sum of squares may be where none of them is."""

    def is_told(self, largest: float, total: float) -> bool:
        return largest == 0 or not math.isfinite(largest)


@caught_by("underflow-of-squares", dtypes=EVERY_DTYPE)
class LooksAtTheSum(_PlainSquares):
    """Scales only where the sum of the squares is zero or infinite: subnormal squares have lost their digits."""

    def is_told(self, largest: float, total: float) -> bool:
        return total == 0 or not math.isfinite(total)


@caught_by("global-norm.overflow-of-squares", dtypes=EVERY_DTYPE)
class AddsTheTensorsSquares(ByGlobalNorm):
    """Scales each tensor's squares, and adds the tensors' unless the largest of these is out of the range."""

    def global_norm(self, tensors: Sequence[Array], p: float) -> float:
        if p != 2 or not tensors or not all(np.isfinite(tensor).all() for tensor in tensors):
            return super().global_norm(tensors, p)
        with np.errstate(all="ignore"):
            squares = np.square(np.array([self.norm([tensor], p) for tensor in tensors], tensors[0].dtype))
            largest = float(np.max(squares))
            total = np.sum(squares, dtype=squares.dtype)
        return math.sqrt(total) if 0 < largest < math.inf else super().global_norm(tensors, p)


class _ScalesByOneTensor(ByGlobalNorm):
    """Shared by those that divide all tensors by the largest magnitude of one of them."""

    place: int

    def global_norm(self, tensors: Sequence[Array], p: float) -> float:
        unit = float(np.max(np.abs(tensors[self.place]), initial=0.0)) if tensors else 0.0
        if p != 2 or unit == 0 or not math.isfinite(unit):
            return super().global_norm(tensors, p)
        with np.errstate(all="ignore"):
            return unit * super().global_norm([tensor / tensor.dtype.type(unit) for tensor in tensors], p)


@caught_by("overflow-of-squares", dtypes=EVERY_DTYPE)
class ScalesByTheFirstTensor(_ScalesByOneTensor):
    """Divides all tensors by the first one's largest magnitude, by which a larger one leaves the range."""

    place = 0


@caught_by("overflow-of-squares", dtypes=EVERY_DTYPE)
class ScalesByTheLastTensor(_ScalesByOneTensor):
    """Divides all tensors by the last one's largest magnitude, by which a larger one leaves the range."""

    place = -1


@caught_by("coefficient-underflow", dtypes=EVERY_DTYPE, inexcusable=True)
class CoefficientOfFewDigits(NormClipper):
    """Rounds clip_norm / norm to the gradients' dtype unless it is zero there: a subnormal one has few digits."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        coefficient = grad.dtype.type(clip_norm / norm)
        return np.asarray(grad * coefficient) if coefficient else super().scale(grad, clip_norm, norm)
