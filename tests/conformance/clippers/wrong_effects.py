"""Define clippers that accept invalid thresholds, or that give different answers to the same call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, Clipper, Gradients, NormClipper
from .table import caught_by

# Invalid thresholds.


class _ChecksNothing(NormClipper):
    """Base of the clippers that accept every threshold."""

    def check(self, clip_norm: float) -> None:
        return


@caught_by("negative-threshold-refused")
class AnswersWithAStatus(_ChecksNothing):
    """Return a status for a negative threshold instead of raising an error."""

    def finish(self, results: Any, total: float, clip_norm: float) -> Any:
        return {"status": "bad"} if clip_norm < 0 else super().finish(results, total, clip_norm)


@caught_by("negative-threshold-refused")
class NegativeFlipsTheSign(_ChecksNothing):
    """Scale by a negative threshold, which flips the signs."""


@caught_by("negative-threshold-refused")
class NegativeMeansOff(_ChecksNothing):
    """Do not clip when the threshold is negative."""

    def is_above(self, norm: float, clip_norm: float) -> bool:
        return clip_norm >= 0 and super().is_above(norm, clip_norm)


@caught_by("negative-threshold-refused")
class MagnitudeOfTheThreshold(_ChecksNothing):
    """Ignore the sign of the threshold."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, abs(clip_norm), norm)


@caught_by("negative-threshold-refused")
class NegativeMeansZero(_ChecksNothing):
    """Treat a negative threshold as 0."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, max(clip_norm, 0.0), norm)


@caught_by("negative-threshold-refused")
class MinusInfinityPasses(NormClipper):
    """Return NaN for a threshold of minus infinity instead of refusing it."""

    def check(self, clip_norm: float) -> None:
        if math.isfinite(clip_norm):
            super().check(clip_norm)

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.full_like(grad, np.nan) if clip_norm == -math.inf else super().clip(grad, clip_norm, norm)


@caught_by("negative-threshold-refused")
class ToleratesLittle(NormClipper):
    """Accept thresholds between -0.01 and 0 and treat them as 0."""

    def check(self, clip_norm: float) -> None:
        super().check(min(0.0, clip_norm + 0.01))

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, max(clip_norm, 0.0), norm)


@caught_by("negative-threshold-refused")
class RefusesWhereItShows(_ChecksNothing):
    """Refuse a negative threshold only if the norm is not zero."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if norm:
            self.refuse(clip_norm)
        return super().scale(grad, clip_norm, norm) if norm else grad

    def refuse(self, clip_norm: float) -> None:
        NormClipper.check(self, clip_norm)


@caught_by("negative-threshold-refused")
class RefusesTooLate(_ChecksNothing):
    """Set a gradient to zero before refusing a negative threshold."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return results

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if clip_norm < 0:
            grad[...] = 0
            NormClipper.check(self, clip_norm)
        return super().clip(grad, clip_norm, norm)


# Differences between calls.


class _Counts(Clipper):
    """Base of the clippers that answer every other call wrongly."""

    calls = 0

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        self.calls += 1
        return self.change(results) if self.calls % 2 else results

    def change(self, results: Gradients) -> Gradients:
        raise NotImplementedError


@caught_by("repeatable")
class EveryOtherCallDiffers(_Counts):
    """Return the next larger floating-point numbers on every other call."""

    def change(self, results: Gradients) -> Gradients:
        return [None if one is None else np.nextafter(one, one.dtype.type(np.inf)) for one in results]


@caught_by("repeatable")
class LosesSignOfZeroEveryOtherCall(_Counts):
    """Flip the sign of zeros on every other call."""

    def change(self, results: Gradients) -> Gradients:
        return [None if one is None else np.where(one == 0, -one, one) for one in results]


@caught_by("repeatable")
class RaisesAtEveryOtherCall(_Counts):
    """Raise an error on every other call."""

    def change(self, results: Gradients) -> Gradients:
        message = "used up"
        raise RuntimeError(message)


@caught_by("repeatable")
class AccumulatesTheNorm(NormClipper):
    """Accumulate the norm over all calls."""

    seen = 0.0

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        self.seen = math.hypot(self.seen, norm)
        return super().clip(grad, clip_norm, self.seen)


@caught_by("global-norm.repeatable")
class ReturnsAnotherNorm(ByGlobalNorm):
    """Add the number of calls to the returned norm."""

    calls = 0

    def report_norm(self, total: float, clip_norm: float) -> Any:
        self.calls += 1
        return total + self.calls
