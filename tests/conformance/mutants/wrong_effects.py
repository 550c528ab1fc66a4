"""Define mutants that accept invalid thresholds, have side effects, or keep values between calls or threads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .steps import Array, ByValue, ClipFunction, Gradients, NormFunction
from .table import caught_by

# Invalid thresholds.


class _ChecksNothing(NormFunction):
    """Base of the mutants that accept every threshold."""

    def check(self, clip_norm: float) -> None:
        return


@caught_by("negative-threshold-refused")
class NegativeFlipsTheSign(_ChecksNothing):
    """Scale by a negative threshold, which flips the signs."""


@caught_by("negative-threshold-refused")
class MinusInfinityPasses(NormFunction):
    """Return NaN for a threshold of minus infinity instead of refusing it."""

    def check(self, clip_norm: float) -> None:
        if math.isfinite(clip_norm):
            super().check(clip_norm)

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.full_like(grad, np.nan) if clip_norm == -math.inf else super().clip(grad, clip_norm, norm)


@caught_by("negative-threshold-refused")
class ToleratesLittle(NormFunction):
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
        NormFunction.check(self, clip_norm)


# Differences between calls.


class _Counts(ClipFunction):
    """Base of the mutants that answer every other call wrongly."""

    calls = 0

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        self.calls += 1
        return self.change(results) if self.calls % 2 else results

    def change(self, results: Gradients) -> Gradients:
        raise NotImplementedError


@caught_by("results-independent")
class ResultsCannotBeWritten(ClipFunction):
    """Return arrays that cannot be written."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        result = np.array(result)
        result.flags.writeable = False
        return result


class _Pool(ClipFunction):
    """Base of the mutants that reuse memory for results in later calls."""

    def __init__(self) -> None:
        self.kept: dict[Any, Array] = {}


@caught_by("results-survive")
class ResultsInOneBuffer(_Pool):
    """Keep one array for each place and form, and write the results of every call into it."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        for place, one in enumerate(results):
            if one is not None and need_clip[place]:
                kept = self.kept.setdefault((place, one.dtype.str, one.shape), np.empty_like(one))
                kept[...] = one
                results[place] = kept
        return results


@caught_by("surroundings-kept")
class ErrorsAreIgnored(ClipFunction):
    """Switch NumPy's floating-point errors off, and do not restore them."""

    def take(self, grads: Any) -> Gradients:
        np.seterr(all="ignore")
        return super().take(grads)


class _Remembers(ClipFunction):
    """Base of the mutants that keep results. They keep the gradients too, so that Python cannot reuse an id."""

    def __init__(self) -> None:
        self.kept: dict[Any, tuple[Gradients, Any]] = {}

    def clip_all(self, grads: Gradients, need_clip: Sequence[bool], clip_one: Callable[[int], Array]) -> Any:
        name = self.make_key(grads)
        if name not in self.kept:
            self.kept[name] = (grads, super().clip_all(grads, need_clip, clip_one))
        return self.kept[name][1]

    def make_key(self, grads: Gradients) -> Any:
        """Return the key under which the result of a call is kept."""
        return tuple(map(id, grads))


@caught_by("repeatable")
class RemembersByObject(_Remembers):
    """Repeat the first result for the same array objects, even if their elements have changed."""


class _RemembersNorms(NormFunction):
    """Base of the mutants that keep norms."""

    def __init__(self) -> None:
        self.kept: dict[Any, tuple[Sequence[Array], float]] = {}

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        name = (self.make_key(tensors), p)
        if name not in self.kept:
            self.kept[name] = (list(tensors), super().compute_norm(tensors, p))
        return self.kept[name][1]

    def make_key(self, tensors: Sequence[Array]) -> Any:
        """Return the key under which a norm is kept."""
        raise NotImplementedError


@caught_by("repeatable")
class RemembersNormsByObject(_RemembersNorms):
    """Reuse the first norm of the same array objects, even if their elements have changed."""

    def make_key(self, tensors: Sequence[Array]) -> Any:
        return tuple(map(id, tensors))


#: The options of the latest call.
OPTIONS: dict[str, Any] = {}

#: The buffers that the module keeps between calls, by shape and dtype.
BUFFERS: dict[Any, Array] = {}


def _find_buffer(values: Array) -> Array:
    return BUFFERS.setdefault((values.shape, values.dtype), np.empty_like(values))


@caught_by("value.threads-agree")
class ClipsInAModulesBuffer(ByValue):
    """Clip in a buffer of the module."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        buffer = _find_buffer(grad)
        np.minimum(grad, grad.dtype.type(high), out=buffer)
        return np.asarray(np.maximum(buffer, grad.dtype.type(low)))


@caught_by("threads-agree")
class ThresholdInAModule(NormFunction):
    """Keep the threshold in the module while scaling."""

    def check(self, clip_norm: float) -> None:
        super().check(clip_norm)
        OPTIONS["clip_norm"] = clip_norm

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, OPTIONS["clip_norm"], norm)


@caught_by("threads-agree")
class FlagsInAModule(ClipFunction):
    """Keep `need_clip` in the module while clipping."""

    def clip_all(self, grads: Gradients, need_clip: Sequence[bool], clip_one: Callable[[int], Array]) -> Any:
        OPTIONS["need_clip"] = need_clip
        return super().clip_all(grads, need_clip, clip_one)

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().select_included(grads, OPTIONS.get("need_clip", need_clip))


@caught_by("threads-agree")
class OrderInAModule(NormFunction):
    """Keep the order of the norm in the module while summing."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        OPTIONS["norm_type"] = p
        return super().compute_norms(grads, counted, p)

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(tensors, OPTIONS["norm_type"])
