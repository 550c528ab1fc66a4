"""Define mutants with defects in excluded or missing gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, ClipFunction, Gradients
from .table import caught_by


@caught_by("excluded-untouched")
class FlagsSlipAfterNone(ClipFunction):
    """Drop missing gradients before matching the flags, so that the flags shift."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        existing = [i for i, grad in enumerate(grads) if grad is not None]
        return [i for i, flag in zip(existing, need_clip, strict=False) if flag]


@caught_by("excluded-untouched")
class ExcludedLoseMinusZero(ClipFunction):
    """Add 0.0 to excluded gradients, which turns -0.0 into 0.0."""

    def leave(self, grad: Array) -> Any:
        return grad + grad.dtype.type(0)


@caught_by("excluded-untouched")
class CleansTheExcluded(ClipFunction):
    """Replace NaN and infinity by finite numbers in excluded gradients."""

    def leave(self, grad: Array) -> Any:
        return np.nan_to_num(grad)


@caught_by("all-excluded")
class AllExcludedMeansNone(ClipFunction):
    """Clip all gradients if all of them are excluded."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().select_included(grads, need_clip if any(need_clip) else [True] * len(grads))


@caught_by("global-norm.excluded-not-counted")
class CountsTheExcluded(ByGlobalNorm):
    """Count excluded gradients in the norm."""

    def select_counted(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().select_counted(grads, [True] * len(grads))


# Missing gradients.


@caught_by("none-stays-none")
class ZerosForNone(ClipFunction):
    """Return zeros for a missing gradient."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [np.zeros(1, np.float32) if result is None else result for result in results]


@caught_by("none-stays-none")
class DropsNone(ClipFunction):
    """Drop missing gradients from the result."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [result for result in results if result is not None]


@caught_by("global-norm.none-not-counted")
class NoneCountsAsOne(ByGlobalNorm):
    """Count each missing gradient as 1 in the norm."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        ones = [np.ones(1) for grad in grads if grad is None]
        return [self.compute_global_norm([*(grads[i] for i in counted), *ones], p)] * max(len(grads), 1)
