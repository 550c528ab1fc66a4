"""Clippers by norm and by global norm that take the wrong norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, Gradients, NormClipper
from .table import caught_by

# The norm.


@caught_by("scaled-above")
class ForgetsTheRoot(NormClipper):
    """Takes the sum of squares for the norm."""

    def root(self, power_sum: float, p: float) -> float:
        return power_sum


@caught_by("scaled-above")
class MeanSquare(NormClipper):
    """Takes the root of the mean square for the norm."""

    def power_sum(self, values: Array, p: float) -> float:
        return super().power_sum(values, p) / values.size


@caught_by("scaled-above")
class SumOfMagnitudes(NormClipper):
    """Takes the sum of magnitudes for the norm."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().norm(tensors, 1.0)


@caught_by("scaled-above")
class LargestMagnitude(NormClipper):
    """Takes the largest magnitude for the norm."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().norm(tensors, math.inf)


@caught_by("scaled-above")
class PositiveElementsOnly(NormClipper):
    """Counts positive elements alone."""

    def magnitudes(self, values: Array) -> Array:
        return np.maximum(values, 0.0)


@caught_by("scaled-above")
class SignsCancel(NormClipper):
    """Sums signed squares."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        values = self.joined(tensors)
        return float(math.sqrt(abs(np.sum(values * np.abs(values)))))


@caught_by("scaled-above")
class SpectralNorm(NormClipper):
    """Takes a matrix's largest singular value, as `numpy.linalg.norm(g, 2)` does."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        if p != 2 or any(tensor.ndim > 2 for tensor in tensors):
            return super().norm(tensors, p)
        matrices = [np.atleast_1d(tensor).astype(np.float64) for tensor in tensors if tensor.size]
        norms = [float(np.linalg.norm(matrix, 2)) for matrix in matrices]
        return math.sqrt(sum(norm * norm for norm in norms))


@caught_by("scaled-above")
class FirstRowOnly(NormClipper):
    """Takes the norm of a matrix's first row for that of the matrix."""

    def joined(self, tensors: Sequence[Array]) -> Array:
        return super().joined([tensor[0] if tensor.ndim > 1 and len(tensor) else tensor for tensor in tensors])


@caught_by("scaled-above")
class LeavesOutTheLastElement(NormClipper):
    """Leaves the last element of each tensor out of the norm."""

    def joined(self, tensors: Sequence[Array]) -> Array:
        return super().joined([tensor.ravel()[:-1] for tensor in tensors])


@caught_by("scaled-above")
class SampleDeviation(NormClipper):
    """Takes the mean off before it squares."""

    def joined(self, tensors: Sequence[Array]) -> Array:
        values = super().joined(tensors)
        return values - values.mean() if values.size else values


@caught_by("scaled-above")
class NormInHalf(NormClipper):
    """Rounds the norm to half precision."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        return float(np.float16(super().norm(tensors, p)))


class _NormsOfMatrices(NormClipper):
    """Shared by those that take the norm of a matrix for that of its elements."""

    induced_by: float

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        if p != self.induced_by:
            return super().norm(tensors, p)
        each = [
            float(np.linalg.norm(one, p)) if one.ndim == 2 else super(_NormsOfMatrices, self).norm([one], p)
            for one in tensors
        ]
        return super().norm([np.array(each)], p)


@caught_by("p-norm")
class LargestColumn(_NormsOfMatrices):
    """Takes the largest sum over a column for the 1-norm of a matrix, as np.linalg.norm does."""

    induced_by = 1.0


@caught_by("infinity-norm")
class LargestRow(_NormsOfMatrices):
    """Takes the largest sum over a row for the infinity norm of a matrix, as np.linalg.norm does."""

    induced_by = math.inf


@caught_by("infinity-norm")
class HundredIsInfinity(NormClipper):
    """Takes the 100-norm for the infinity norm."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().norm(tensors, 100.0 if p == math.inf else p)


@caught_by("intermediate-range", dtypes=("float16", "float32", "float64"))
class ThresholdFirst(NormClipper):
    """Multiplies by clip_norm in the gradient's dtype, where small elements lose their digits, and divides then."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        with np.errstate(all="ignore"):
            product = grad * grad.dtype.type(clip_norm)
        return self.wide_scale(product, 1.0, norm).astype(grad.dtype)


@caught_by("intermediate-range", dtypes=("float16", "float32"))
class QuotientFirst(NormClipper):
    """Divides by the norm in the gradient's dtype, where small elements vanish, and multiplies then."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        quotient = self.wide_scale(grad, 1.0, norm).astype(grad.dtype)
        return np.asarray(quotient * grad.dtype.type(clip_norm))


@caught_by("global-norm.one-norm-over-all")
class LongOnesByTheirOwnNorm(ByGlobalNorm):
    """Clips a gradient of more than 100 elements by its own norm."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, clip_norm, self.norm([grad], 2.0) if grad.size > 100 else norm)


class _SumsInOneDtype(ByGlobalNorm):
    """Shared by those that take the norm of gradients of several dtypes in one of these."""

    taken_from: int

    def global_norm(self, tensors: Sequence[Array], p: float) -> float:
        with np.errstate(over="ignore"):
            return super().global_norm([one.astype(tensors[self.taken_from].dtype) for one in tensors], p)


@caught_by("global-norm.mixed-dtypes", dtypes=("float16", "float32", "float64"))
class NormInTheFirstDtype(_SumsInOneDtype):
    """Takes the norm in the first gradient's dtype."""

    taken_from = 0


@caught_by("global-norm.mixed-dtypes", dtypes=("float16", "float32", "float64"))
class NormInTheLastDtype(_SumsInOneDtype):
    """Takes the norm in the last gradient's dtype."""

    taken_from = -1


# The defaults.


@caught_by("scaled-above")
class AnotherOrderByDefault(NormClipper):
    """Takes the sum of the magnitudes for the norm where no order is asked for."""

    def __call__(self, grads: Gradients, *, norm_type: float = 1.0, **options: Any) -> Any:
        return super().__call__(grads, norm_type=norm_type, **options)


@caught_by("global-norm.returned-norm-nonfinite")
class RaisesByDefault(ByGlobalNorm):
    """Raises where the norm is not finite unless it is told not to."""

    def __call__(self, grads: Gradients, *, error_if_nonfinite: bool = True, **options: Any) -> Any:
        return super().__call__(grads, error_if_nonfinite=error_if_nonfinite, **options)
