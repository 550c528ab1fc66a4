"""Clippers that treat excluded gradients, and those that do not exist, wrongly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, Clipper, Gradients
from .table import caught_by


@caught_by("value.bounds", "norm.each-tensor-alone", "global-norm.one-norm-over-all")
class NoFlagsForNone(Clipper):
    """Clips nothing where it is not told what to clip."""

    def __call__(self, grads: Gradients, *, need_clip: Sequence[bool] | None = None, **options: Any) -> Any:
        flags = [False] * len(grads) if need_clip is None else need_clip
        return super().__call__(grads, need_clip=flags, **options)  # type: ignore[misc] # of the three operations


@caught_by("excluded-untouched")
class ClipsTheExcluded(Clipper):
    """Ignores need_clip."""

    def included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().included(grads, [True] * len(grads))


@caught_by("excluded-untouched")
class FlagsTheWrongWayRound(Clipper):
    """Clips what is excluded, and that alone."""

    def included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().included(grads, [not flag for flag in need_clip])


@caught_by("excluded-untouched")
class FirstFlagForAll(Clipper):
    """Takes the first flag for all gradients."""

    def included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().included(grads, [need_clip[0]] * len(grads) if need_clip else need_clip)


@caught_by("excluded-untouched")
class AnyFlagForAll(Clipper):
    """Clips all gradients when one of them is to be clipped."""

    def included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().included(grads, [any(need_clip)] * len(grads))


@caught_by("excluded-untouched")
class FlagsSlipAfterNone(Clipper):
    """Leaves gradients that are None out of the list before it looks up the flags."""

    def included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        existing = [i for i, grad in enumerate(grads) if grad is not None]
        return [i for i, flag in zip(existing, need_clip, strict=False) if flag]


@caught_by("excluded-untouched")
class ZeroForExcluded(Clipper):
    """Gives zeros for excluded gradients."""

    def leave(self, grad: Array) -> Any:
        return np.zeros_like(grad)


@caught_by("excluded-untouched")
class NoneForExcluded(Clipper):
    """Gives None for excluded gradients."""

    def leave(self, grad: Array) -> Any:
        return None


@caught_by("excluded-untouched")
class NegatesTheExcluded(Clipper):
    """Turns excluded gradients round."""

    def leave(self, grad: Array) -> Any:
        return -grad


@caught_by("excluded-untouched")
class ExcludedLoseMinusZero(Clipper):
    """Adds 0.0 to excluded gradients, which turns -0.0 into 0.0."""

    def leave(self, grad: Array) -> Any:
        return grad + grad.dtype.type(0)


@caught_by("excluded-untouched")
class CleansTheExcluded(Clipper):
    """Gives numbers for the NaN and infinities of excluded gradients."""

    def leave(self, grad: Array) -> Any:
        return np.nan_to_num(grad)


@caught_by("excluded-untouched")
class WidensTheExcluded(Clipper):
    """Gives excluded gradients back in float64."""

    def leave(self, grad: Array) -> Any:
        return grad.astype(np.float64)


@caught_by("excluded-untouched")
class DropsTheExcluded(Clipper):
    """Leaves excluded gradients out of the answer."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [result for result, flag in zip(results, need_clip, strict=True) if flag]


@caught_by("excluded-untouched")
class ExcludedToTheEnd(Clipper):
    """Gives excluded gradients back after all others."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        order = sorted(range(len(results)), key=lambda i: not need_clip[i])
        return [results[i] for i in order]


@caught_by("all-excluded")
class RaisesWithoutIncluded(Clipper):
    """Raises where there is nothing to clip."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        if not self.included(grads, need_clip):
            message = "nothing to clip"
            raise ValueError(message)
        return results


@caught_by("all-excluded")
class AllExcludedMeansNone(Clipper):
    """Clips all gradients where every one of them is excluded."""

    def included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().included(grads, need_clip if any(need_clip) else [True] * len(grads))


@caught_by("all-excluded")
class NothingForAllExcluded(Clipper):
    """Gives an empty list where every gradient is excluded."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return results if any(need_clip) else []


@caught_by("global-norm.all-excluded")
class NanForAllExcluded(ByGlobalNorm):
    """Returns NaN for the norm over nothing."""

    def global_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().global_norm(tensors, p) if tensors else math.nan


@caught_by("global-norm.all-excluded")
class LargestOfNothing(ByGlobalNorm):
    """Takes the largest magnitude of nothing, which raises."""

    def global_norm(self, tensors: Sequence[Array], p: float) -> float:
        max(float(np.max(np.abs(tensor), initial=0.0)) for tensor in tensors)
        return super().global_norm(tensors, p)


@caught_by("global-norm.excluded-not-counted")
class CountsTheExcluded(ByGlobalNorm):
    """Counts excluded gradients in the norm, and leaves them alone."""

    def counted(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().counted(grads, [True] * len(grads))


@caught_by("global-norm.excluded-not-counted")
class ExcludedTimesZero(ByGlobalNorm):
    """Multiplies by the flag, so that the NaN of an excluded gradient stays in the norm."""

    def norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        with np.errstate(invalid="ignore"):
            flagged = [grad * grad.dtype.type(i in counted) for i, grad in enumerate(grads) if grad is not None]
        return [self.global_norm(flagged, p)] * max(len(grads), 1)


@caught_by("global-norm.excluded-not-counted")
class CountsTheFirstAlways(ByGlobalNorm):
    """Counts the first gradient whether it is excluded or not."""

    def counted(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().counted(grads, [True, *need_clip[1:]])


@caught_by("global-norm.excluded-not-counted")
class ReturnsTheNormOfAll(ByGlobalNorm):
    """Clips by the norm of the included gradients, and returns that of all."""

    def norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        self.all = self.norm([grad for grad in grads if grad is not None], p)
        return super().norms(grads, counted, p)

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return self.all


@caught_by("global-norm.excluded-not-counted")
class ExcludedAsOnes(ByGlobalNorm):
    """Counts one for each excluded gradient."""

    def norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        stand_ins = [np.ones(1) for i, grad in enumerate(grads) if grad is not None and i not in counted]
        return [self.global_norm([*(grads[i] for i in counted), *stand_ins], p)] * max(len(grads), 1)


# Gradients that do not exist.


@caught_by("none-stays-none")
class ZerosForNone(Clipper):
    """Makes a gradient where there was none."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [np.zeros(1, np.float32) if result is None else result for result in results]


@caught_by("none-stays-none")
class DropsNone(Clipper):
    """Leaves gradients that do not exist out of the answer."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [result for result in results if result is not None]


@caught_by("none-stays-none")
class NoneToTheEnd(Clipper):
    """Gives gradients that do not exist back after all others."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return sorted(results, key=lambda result: result is None)


@caught_by("none-stays-none")
class RaisesForNone(Clipper):
    """Insists on a gradient for each parameter."""

    def included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        if any(grad is None for grad in grads):
            message = "a parameter has no gradient"
            raise TypeError(message)
        return super().included(grads, need_clip)


@caught_by("none-stays-none")
class StopsAtNone(Clipper):
    """Gives back what comes before the first gradient that does not exist."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return results[: next((i for i, grad in enumerate(grads) if grad is None), len(grads))]


@caught_by("global-norm.none-not-counted")
class NoneCountsAsOne(ByGlobalNorm):
    """Counts 1 in the norm for each gradient that does not exist."""

    def norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        ones = [np.ones(1) for grad in grads if grad is None]
        return [self.global_norm([*(grads[i] for i in counted), *ones], p)] * max(len(grads), 1)


@caught_by("global-norm.none-not-counted")
class NoneEndsTheNorm(ByGlobalNorm):
    """Counts what comes before the first gradient that does not exist."""

    def counted(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        end = next((i for i, grad in enumerate(grads) if grad is None), len(grads))
        return [i for i in super().counted(grads, need_clip) if i < end]


@caught_by("global-norm.none-not-counted")
class NanForOnlyNone(ByGlobalNorm):
    """Raises where no gradient exists at all."""

    def global_norm(self, tensors: Sequence[Array], p: float) -> float:
        if not tensors:
            message = "max() arg is an empty sequence"
            raise ValueError(message)
        return super().global_norm(tensors, p)
