"""Define clippers that compute the norm of the wrong tensors or of the wrong order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, ByNorm, Gradients, NormClipper
from .table import caught_by

# The tensors of the norm.


@caught_by("norm.each-tensor-alone")
class GlobalInsteadOfOwn(ByNorm):
    """Clip each tensor by the global norm."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return [self.compute_norm([grads[i] for i in counted], p)] * len(grads)


@caught_by("norm.each-tensor-alone")
class LargestOfTheNorms(ByNorm):
    """Clip each tensor by the largest of the norms."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return [max(super().compute_norms(grads, counted, p), default=0.0)] * len(grads)


@caught_by("norm.each-tensor-alone")
class NormOfTheFirst(ByNorm):
    """Clip each tensor by the first tensor's norm."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return super().compute_norms(grads, counted, p)[:1] * len(grads)


@caught_by("norm.each-tensor-alone")
class RunningNorm(ByNorm):
    """Clip each tensor by the norm of the tensors up to and including it."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return [self.compute_norm([grads[j] for j in counted if j <= i], p) for i in range(len(grads))]


@caught_by("norm.each-tensor-alone")
class StopsAfterTheFirst(ByNorm):
    """Clip only the first tensor."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().select_included(grads, need_clip)[:1]


@caught_by("norm.each-tensor-alone")
class AverageNorm(ByNorm):
    """Clip each tensor by the average of the norms."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        norms = super().compute_norms(grads, counted, p)
        return [sum(norms) / max(len(norms), 1)] * len(norms)


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
class AveragedOverTensors(ByGlobalNorm):
    """Divide the sum of squares by the number of tensors."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_global_norm(tensors, p) / math.sqrt(max(len(tensors), 1))


@caught_by("global-norm.one-norm-over-all")
class ForgetsTheLastTensor(ByGlobalNorm):
    """Leave the last of several tensors out of the norm."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_global_norm(tensors[:-1] or tensors, p)


@caught_by("global-norm.one-norm-over-all")
class ForgetsTheFirstTensor(ByGlobalNorm):
    """Leave the first of several tensors out of the norm."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_global_norm(tensors[1:] or tensors, p)


@caught_by("global-norm.one-norm-over-all")
class ScalesTheLargestOnly(ByGlobalNorm):
    """Scale only tensors whose own norm is above the threshold."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, clip_norm, norm) if self.compute_norm([grad], 2.0) > clip_norm else grad


@caught_by("global-norm.one-norm-over-all")
class ScalesTheFirstOnly(ByGlobalNorm):
    """Scale only the first tensor."""

    def clip_all(self, grads: Gradients, need_clip: Sequence[bool], clip_one: Any) -> Any:
        return super().clip_all(grads, [flag and i == 0 for i, flag in enumerate(need_clip)], clip_one)


@caught_by("global-norm.one-norm-over-all")
class MatricesLeftOut(ByGlobalNorm):
    """Leave tensors of two or more dimensions out of the norm."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_global_norm([tensor for tensor in tensors if tensor.ndim < 2], p)


@caught_by("global-norm.one-norm-over-all", "global-norm.p-norm")
class EuclideanWithinTensors(ByGlobalNorm):
    """Use the Euclidean norm within each tensor, and `norm_type` only across tensors."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        return self.compute_norm([np.array([self.compute_norm([tensor], 2.0)]) for tensor in tensors], p)


@caught_by("global-norm.one-norm-over-all", "global-norm.infinity-norm")
class EuclideanAcrossTensors(ByGlobalNorm):
    """Use `norm_type` only within each tensor, and the Euclidean norm across tensors."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        return self.compute_norm([np.array([self.compute_norm([tensor], p)]) for tensor in tensors], 2.0)


# The order of the norm.


@caught_by("p-norm", "infinity-norm")
class AlwaysEuclidean(NormClipper):
    """Ignore `norm_type`."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(tensors, 2.0)


@caught_by("p-norm")
class PowersWithSigns(NormClipper):
    """Raise elements to the powers 1 and 3 without taking magnitudes."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        if p not in (1, 3):
            return super().compute_norm(tensors, p)
        return float(abs(np.sum(self.join(tensors) ** p)) ** (1 / p))


@caught_by("p-norm")
class SquareRootForEveryOrder(NormClipper):
    """Take the square root for every order."""

    def take_root(self, power_sum: float, p: float) -> float:
        return math.sqrt(power_sum)


@caught_by("p-norm")
class NoRootForOtherOrders(NormClipper):
    """Take no root unless the order is 2."""

    def take_root(self, power_sum: float, p: float) -> float:
        return super().take_root(power_sum, p) if p == 2 else power_sum


@caught_by("p-norm")
class WholeOrdersOnly(NormClipper):
    """Round the order of the norm down to an integer of at least 1."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(tensors, p if math.isinf(p) else max(1.0, float(int(p))))


@caught_by("p-norm")
class LargeOrdersAreInfinite(NormClipper):
    """Use the largest magnitude for every order above 2."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(tensors, math.inf if p > 2 else p)


@caught_by("infinity-norm")
class LargestElementNotMagnitude(NormClipper):
    """Use the largest element as the infinity norm, without taking magnitudes."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        values = self.join(tensors)
        return float(np.max(values, initial=0.0)) if p == math.inf else super().compute_norm(tensors, p)


@caught_by("infinity-norm")
class InfinityAsSum(NormClipper):
    """Use the sum of magnitudes as the infinity norm."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(tensors, 1.0 if p == math.inf else p)


@caught_by("infinity-norm")
class SmallestMagnitude(NormClipper):
    """Use the smallest magnitude as the infinity norm."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        values = np.abs(self.join(tensors))
        return float(np.min(values)) if p == math.inf and values.size else super().compute_norm(tensors, p)
