"""Define mutants that compute the norm of the wrong tensors or of the wrong order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .steps import Array, ByGlobalNorm, ByNorm, Gradients, NormFunction
from .table import caught_by

# The tensors of the norm.


@caught_by("norm.each-tensor-alone")
class GlobalInsteadOfOwn(ByNorm):
    """Clip each tensor by the global norm."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return [self.compute_norm([grads[i] for i in counted], p)] * len(grads)


@caught_by("norm.each-tensor-alone")
class NormOfTheFirst(ByNorm):
    """Clip each tensor by the first tensor's norm."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return super().compute_norms(grads, counted, p)[:1] * len(grads)


@caught_by("global-norm.one-norm-over-all")
class OwnInsteadOfGlobal(ByGlobalNorm):
    """Clip each tensor by its own norm."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return [self.compute_norm([grad], p) if i in counted else 0.0 for i, grad in enumerate(grads)]


@caught_by("global-norm.one-norm-over-all")
class SumOfNorms(ByGlobalNorm):
    """Use the sum of the tensors' norms as the global norm."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        return sum(self.compute_norm([tensor], p) for tensor in tensors)


@caught_by("global-norm.one-norm-over-all")
class LargestNorm(ByGlobalNorm):
    """Use the largest of the tensors' norms as the global norm."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        return max((self.compute_norm([tensor], p) for tensor in tensors), default=0.0)


@caught_by("global-norm.one-norm-over-all")
class ForgetsTheLastTensor(ByGlobalNorm):
    """Leave the last of several tensors out of the norm."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_global_norm(tensors[:-1] or tensors, p)


# The order of the norm.


@caught_by("p-norm")
class PowersWithSigns(NormFunction):
    """Raise elements to the powers 1 and 3 without taking magnitudes."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        if p not in (1, 3):
            return super().compute_norm(tensors, p)
        return float(abs(np.sum(self.join(tensors) ** p)) ** (1 / p))


@caught_by("p-norm")
class WholeOrdersOnly(NormFunction):
    """Round the order of the norm down to an integer of at least 1."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(tensors, p if math.isinf(p) else max(1.0, float(int(p))))


@caught_by("infinity-norm")
class LargestElementNotMagnitude(NormFunction):
    """Use the largest element as the infinity norm, without taking magnitudes."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        values = self.join(tensors)
        return float(np.max(values, initial=0.0)) if p == math.inf else super().compute_norm(tensors, p)
