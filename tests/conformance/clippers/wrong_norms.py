"""Define clippers by norm and by global norm that compute the wrong norm."""

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
    """Forget the square root."""

    def take_root(self, power_sum: float, p: float) -> float:
        return power_sum


@caught_by("scaled-above")
class MeanSquare(NormClipper):
    """Use the mean of the squares instead of their sum."""

    def sum_powers(self, values: Array, p: float) -> float:
        return super().sum_powers(values, p) / values.size


@caught_by("scaled-above")
class SumOfMagnitudes(NormClipper):
    """Use the sum of magnitudes as the norm."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(tensors, 1.0)


@caught_by("scaled-above")
class LargestMagnitude(NormClipper):
    """Use the largest magnitude as the norm."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(tensors, math.inf)


@caught_by("scaled-above")
class PositiveElementsOnly(NormClipper):
    """Count only positive elements in the norm."""

    def take_magnitudes(self, values: Array) -> Array:
        return np.maximum(values, 0.0)


@caught_by("scaled-above")
class SignsCancel(NormClipper):
    """Keep the signs of the squares, so that they cancel in the sum."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        values = self.join(tensors)
        return float(math.sqrt(abs(np.sum(values * np.abs(values)))))


@caught_by("scaled-above")
class SpectralNorm(NormClipper):
    """Use the largest singular value of a matrix, as `numpy.linalg.norm(g, 2)` does."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        if p != 2 or any(tensor.ndim > 2 for tensor in tensors):
            return super().compute_norm(tensors, p)
        matrices = [np.atleast_1d(tensor).astype(np.float64) for tensor in tensors if tensor.size]
        norms = [float(np.linalg.norm(matrix, 2)) for matrix in matrices]
        return math.sqrt(sum(norm * norm for norm in norms))


@caught_by("scaled-above")
class FirstRowOnly(NormClipper):
    """Count only the first row of a matrix in the norm."""

    def join(self, tensors: Sequence[Array]) -> Array:
        return super().join([tensor[0] if tensor.ndim > 1 and len(tensor) else tensor for tensor in tensors])


@caught_by("scaled-above")
class LeavesOutTheLastElement(NormClipper):
    """Leave the last element of each tensor out of the norm."""

    def join(self, tensors: Sequence[Array]) -> Array:
        return super().join([tensor.ravel()[:-1] for tensor in tensors])


@caught_by("scaled-above")
class SampleDeviation(NormClipper):
    """Subtract the mean before squaring."""

    def join(self, tensors: Sequence[Array]) -> Array:
        values = super().join(tensors)
        return values - values.mean() if values.size else values


@caught_by("scaled-above")
class NormInHalf(NormClipper):
    """Round the norm to float16."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return float(np.float16(super().compute_norm(tensors, p)))


class _NormsOfMatrices(NormClipper):
    """Base of the clippers that compute an operator norm of a matrix."""

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


@caught_by("infinity-norm")
class HundredIsInfinity(NormClipper):
    """Use the 100-norm as the infinity norm."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(tensors, 100.0 if p == math.inf else p)


@caught_by("intermediate-range", dtypes=("float16", "float32", "float64"))
class ThresholdFirst(NormClipper):
    """Multiply by clip_norm in the gradient's dtype before dividing, so that small elements lose digits."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        with np.errstate(all="ignore"):
            product = grad * grad.dtype.type(clip_norm)
        return self.scale_in_float64(product, 1.0, norm).astype(grad.dtype)


@caught_by("intermediate-range", dtypes=("float16", "float32"))
class QuotientFirst(NormClipper):
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
    """Base of the clippers that convert all gradients to one gradient's dtype before computing the norm."""

    taken_from: int

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        with np.errstate(over="ignore"):
            return super().compute_global_norm([one.astype(tensors[self.taken_from].dtype) for one in tensors], p)


@caught_by("global-norm.mixed-dtypes", dtypes=("float16", "float32", "float64"))
class NormInTheFirstDtype(_SumsInOneDtype):
    """Compute the norm in the first gradient's dtype."""

    taken_from = 0


@caught_by("global-norm.mixed-dtypes", dtypes=("float16", "float32", "float64"))
class NormInTheLastDtype(_SumsInOneDtype):
    """Compute the norm in the last gradient's dtype."""

    taken_from = -1


# The defaults.


@caught_by("scaled-above")
class AnotherOrderByDefault(NormClipper):
    """Use the 1-norm if `norm_type` is not passed."""

    def __call__(self, grads: Gradients, *, norm_type: float = 1.0, **options: Any) -> Any:
        return super().__call__(grads, norm_type=norm_type, **options)


@caught_by("global-norm.returned-norm-nonfinite")
class RaisesByDefault(ByGlobalNorm):
    """Raise for a nonfinite norm if `error_if_nonfinite` is not passed."""

    def __call__(self, grads: Gradients, *, error_if_nonfinite: bool = True, **options: Any) -> Any:
        return super().__call__(grads, error_if_nonfinite=error_if_nonfinite, **options)
