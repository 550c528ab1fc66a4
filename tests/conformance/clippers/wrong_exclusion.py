"""Define clippers with defects in excluded or missing gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, Clipper, Gradients
from .table import caught_by


@caught_by("value.bounds", "norm.each-tensor-alone", "global-norm.one-norm-over-all")
class NoFlagsForNone(Clipper):
    """Clip nothing if `need_clip` is not passed."""

    def __call__(self, grads: Gradients, *, need_clip: Sequence[bool] | None = None, **options: Any) -> Any:
        flags = [False] * len(grads) if need_clip is None else need_clip
        return super().__call__(grads, need_clip=flags, **options)  # type: ignore[misc] # of the three operations


@caught_by("excluded-untouched")
class ClipsTheExcluded(Clipper):
    """Clip excluded gradients too."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().select_included(grads, [True] * len(grads))


@caught_by("excluded-untouched")
class FlagsTheWrongWayRound(Clipper):
    """Clip only the excluded gradients."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().select_included(grads, [not flag for flag in need_clip])


@caught_by("excluded-untouched")
class FirstFlagForAll(Clipper):
    """Use the first flag for all gradients."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().select_included(grads, [need_clip[0]] * len(grads) if need_clip else need_clip)


@caught_by("excluded-untouched")
class AnyFlagForAll(Clipper):
    """Clip all gradients if any of them is included."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().select_included(grads, [any(need_clip)] * len(grads))


@caught_by("excluded-untouched")
class FlagsSlipAfterNone(Clipper):
    """Drop missing gradients before matching the flags, so that the flags shift."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        existing = [i for i, grad in enumerate(grads) if grad is not None]
        return [i for i, flag in zip(existing, need_clip, strict=False) if flag]


@caught_by("excluded-untouched")
class ZeroForExcluded(Clipper):
    """Return zeros for excluded gradients."""

    def leave(self, grad: Array) -> Any:
        return np.zeros_like(grad)


@caught_by("excluded-untouched")
class NoneForExcluded(Clipper):
    """Return None for excluded gradients."""

    def leave(self, grad: Array) -> Any:
        return None


@caught_by("excluded-untouched")
class NegatesTheExcluded(Clipper):
    """Flip the signs of excluded gradients."""

    def leave(self, grad: Array) -> Any:
        return -grad


@caught_by("excluded-untouched")
class ExcludedLoseMinusZero(Clipper):
    """Add 0.0 to excluded gradients, which turns -0.0 into 0.0."""

    def leave(self, grad: Array) -> Any:
        return grad + grad.dtype.type(0)


@caught_by("excluded-untouched")
class CleansTheExcluded(Clipper):
    """Replace NaN and infinity by finite numbers in excluded gradients."""

    def leave(self, grad: Array) -> Any:
        return np.nan_to_num(grad)


@caught_by("excluded-untouched")
class WidensTheExcluded(Clipper):
    """Return excluded gradients in float64."""

    def leave(self, grad: Array) -> Any:
        return grad.astype(np.float64)


@caught_by("excluded-untouched")
class DropsTheExcluded(Clipper):
    """Drop excluded gradients from the result."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [result for result, flag in zip(results, need_clip, strict=True) if flag]


@caught_by("excluded-untouched")
class ExcludedToTheEnd(Clipper):
    """Move excluded gradients to the end of the result."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        order = sorted(range(len(results)), key=lambda i: not need_clip[i])
        return [results[i] for i in order]


@caught_by("all-excluded")
class RaisesWithoutIncluded(Clipper):
    """Raise if no gradient is included."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        if not self.select_included(grads, need_clip):
            message = "nothing to clip"
            raise ValueError(message)
        return results


@caught_by("all-excluded")
class AllExcludedMeansNone(Clipper):
    """Clip all gradients if all of them are excluded."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().select_included(grads, need_clip if any(need_clip) else [True] * len(grads))


@caught_by("all-excluded")
class NothingForAllExcluded(Clipper):
    """Return an empty list if all gradients are excluded."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return results if any(need_clip) else []


@caught_by("global-norm.all-excluded")
class NanForAllExcluded(ByGlobalNorm):
    """Return NaN for the norm if no gradient is included."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_global_norm(tensors, p) if tensors else math.nan


@caught_by("global-norm.all-excluded")
class LargestOfNothing(ByGlobalNorm):
    """Raise if no gradient is included, because `max` gets an empty sequence."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        max(float(np.max(np.abs(tensor), initial=0.0)) for tensor in tensors)
        return super().compute_global_norm(tensors, p)


@caught_by("global-norm.excluded-not-counted")
class CountsTheExcluded(ByGlobalNorm):
    """Count excluded gradients in the norm."""

    def select_counted(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().select_counted(grads, [True] * len(grads))


@caught_by("global-norm.excluded-not-counted")
class ExcludedTimesZero(ByGlobalNorm):
    """Multiply excluded gradients by 0 before they are counted, so that a NaN in them makes the norm NaN."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        with np.errstate(invalid="ignore"):
            flagged = [grad * grad.dtype.type(i in counted) for i, grad in enumerate(grads) if grad is not None]
        return [self.compute_global_norm(flagged, p)] * max(len(grads), 1)


@caught_by("global-norm.excluded-not-counted")
class CountsTheFirstAlways(ByGlobalNorm):
    """Count the first gradient in the norm even if it is excluded."""

    def select_counted(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().select_counted(grads, [True, *need_clip[1:]])


@caught_by("global-norm.excluded-not-counted")
class ReturnsTheNormOfAll(ByGlobalNorm):
    """Count excluded gradients in the returned norm."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        self.all = self.compute_norm([grad for grad in grads if grad is not None], p)
        return super().compute_norms(grads, counted, p)

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return self.all


@caught_by("global-norm.excluded-not-counted")
class ExcludedAsOnes(ByGlobalNorm):
    """Count each excluded gradient as 1 in the norm."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        stand_ins = [np.ones(1) for i, grad in enumerate(grads) if grad is not None and i not in counted]
        return [self.compute_global_norm([*(grads[i] for i in counted), *stand_ins], p)] * max(len(grads), 1)


# Missing gradients.


@caught_by("none-stays-none")
class ZerosForNone(Clipper):
    """Return zeros for a missing gradient."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [np.zeros(1, np.float32) if result is None else result for result in results]


@caught_by("none-stays-none")
class DropsNone(Clipper):
    """Drop missing gradients from the result."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [result for result in results if result is not None]


@caught_by("none-stays-none")
class NoneToTheEnd(Clipper):
    """Move missing gradients to the end of the result."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return sorted(results, key=lambda result: result is None)


@caught_by("none-stays-none")
class RaisesForNone(Clipper):
    """Raise if a gradient is missing."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        if any(grad is None for grad in grads):
            message = "a parameter has no gradient"
            raise TypeError(message)
        return super().select_included(grads, need_clip)


@caught_by("none-stays-none")
class StopsAtNone(Clipper):
    """Return only the results before the first missing gradient."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return results[: next((i for i, grad in enumerate(grads) if grad is None), len(grads))]


@caught_by("global-norm.none-not-counted")
class NoneCountsAsOne(ByGlobalNorm):
    """Count each missing gradient as 1 in the norm."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        ones = [np.ones(1) for grad in grads if grad is None]
        return [self.compute_global_norm([*(grads[i] for i in counted), *ones], p)] * max(len(grads), 1)


@caught_by("global-norm.none-not-counted")
class NoneEndsTheNorm(ByGlobalNorm):
    """Count only the gradients before the first missing one."""

    def select_counted(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        end = next((i for i, grad in enumerate(grads) if grad is None), len(grads))
        return [i for i in super().select_counted(grads, need_clip) if i < end]


@caught_by("global-norm.none-not-counted")
class RaisesForOnlyNone(ByGlobalNorm):
    """Raise if no gradient is left to count."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        if not tensors:
            message = "max() arg is an empty sequence"
            raise ValueError(message)
        return super().compute_global_norm(tensors, p)
