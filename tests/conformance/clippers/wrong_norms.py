"""Clippers by norm and by global norm that take the wrong norm."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .steps import Array, NormClipper
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
