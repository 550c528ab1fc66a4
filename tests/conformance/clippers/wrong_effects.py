"""Clippers that take thresholds which make no sense, or differ from call to call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, Clipper, Gradients, NormClipper
from .table import caught_by

# Thresholds that make no sense.


class _ChecksNothing(NormClipper):
    """Shared by those that take every threshold."""

    def check(self, clip_norm: float) -> None:
        return


@caught_by("negative-threshold-refused")
class AnswersWithAStatus(_ChecksNothing):
    """Returns a status where a threshold is negative, and raises nothing."""

    def give(self, results: Any, total: float, clip_norm: float) -> Any:
        return {"status": "bad"} if clip_norm < 0 else super().give(results, total, clip_norm)


@caught_by("negative-threshold-refused")
class NegativeFlipsTheSign(_ChecksNothing):
    """Scales by a negative threshold."""


@caught_by("negative-threshold-refused")
class NegativeMeansOff(_ChecksNothing):
    """Takes a negative threshold for no clipping at all."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return clip_norm >= 0 and super().is_above(norm, clip_norm)


@caught_by("negative-threshold-refused")
class MagnitudeOfTheThreshold(_ChecksNothing):
    """Forgets the sign of the threshold."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, abs(clip_norm), norm)


@caught_by("negative-threshold-refused")
class NegativeMeansZero(_ChecksNothing):
    """Takes a negative threshold for 0."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, max(clip_norm, 0.0), norm)


@caught_by("negative-threshold-refused")
class MinusInfinityPasses(NormClipper):
    """Refuses finite negative thresholds alone."""

    def check(self, clip_norm: float) -> None:
        if math.isfinite(clip_norm):
            super().check(clip_norm)

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.full_like(grad, np.nan) if clip_norm == -math.inf else super().clip(grad, clip_norm, norm)


@caught_by("negative-threshold-refused")
class ToleratesLittle(NormClipper):
    """Refuses thresholds below -1/100, and takes those above it for 0."""

    def check(self, clip_norm: float) -> None:
        super().check(min(0.0, clip_norm + 0.01))

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, max(clip_norm, 0.0), norm)


@caught_by("negative-threshold-refused")
class RefusesWhereItShows(_ChecksNothing):
    """Refuses a negative threshold when it has something to scale."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if norm:
            self.refuse(clip_norm)
        return super().scale(grad, clip_norm, norm) if norm else grad

    def refuse(self, clip_norm: float) -> None:
        NormClipper.check(self, clip_norm)


@caught_by("negative-threshold-refused")
class RefusesTooLate(_ChecksNothing):
    """Refuses a negative threshold once the gradients are gone."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return results

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if clip_norm < 0:
            grad[...] = 0
            NormClipper.check(self, clip_norm)
        return super().clip(grad, clip_norm, norm)


# From call to call.


class _Counts(Clipper):
    """Shared by those that remember how often they were called."""

    calls = 0

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        self.calls += 1
        return self.changed(results) if self.calls % 2 else results

    def changed(self, results: Gradients) -> Gradients:
        raise NotImplementedError


@caught_by("repeatable")
class EveryOtherCallDiffers(_Counts):
    """Moves the results to the next numbers at every other call."""

    def changed(self, results: Gradients) -> Gradients:
        return [None if one is None else np.nextafter(one, one.dtype.type(np.inf)) for one in results]


@caught_by("repeatable")
class LosesSignOfZeroEveryOtherCall(_Counts):
    """Negates the zeros at every other call."""

    def changed(self, results: Gradients) -> Gradients:
        return [None if one is None else np.where(one == 0, -one, one) for one in results]


@caught_by("repeatable")
class RaisesAtEveryOtherCall(_Counts):
    """Needs something that the call before uses up."""

    def changed(self, results: Gradients) -> Gradients:
        message = "used up"
        raise RuntimeError(message)


@caught_by("repeatable")
class AccumulatesTheNorm(NormClipper):
    """Adds the norms of all calls up."""

    seen = 0.0

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        self.seen = math.hypot(self.seen, norm)
        return super().clip(grad, clip_norm, self.seen)


@caught_by("global-norm.repeatable")
class ReturnsAnotherNorm(ByGlobalNorm):
    """Returns the norm and the number of calls."""

    calls = 0

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        self.calls += 1
        return total + self.calls
