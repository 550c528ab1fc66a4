"""Define clippers that share a value between threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, ByValue, Clipper, Gradients, NormClipper
from .table import caught_by

#: The options of the latest call.
OPTIONS: dict[str, Any] = {}

#: The buffers that the module keeps between calls, by shape and dtype.
BUFFERS: dict[Any, Array] = {}


def _find_buffer(values: Array) -> Array:
    return BUFFERS.setdefault((values.shape, values.dtype), np.empty_like(values))


@caught_by("threads-agree")
class ResultsInAModulesBuffer(Clipper):
    """Write each result into a buffer of the module before copying it."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        buffer = _find_buffer(result)
        np.copyto(buffer, result)
        return buffer.copy()


@caught_by("threads-agree")
class SquaresInAModulesBuffer(NormClipper):
    """Compute the powers in a buffer of the module."""

    def sum_powers(self, values: Array, p: float) -> float:
        buffer = _find_buffer(values)
        np.copyto(buffer, values)
        return float(np.sum(np.power(buffer, p, out=buffer)))


@caught_by("global-norm.threads-agree")
class NormInAnAttribute(ByGlobalNorm):
    """Keep the norm in an attribute while scaling."""

    kept = 0.0

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        self.kept = super().compute_global_norm(tensors, p)
        return self.kept

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale(grad, clip_norm, self.kept)


@caught_by("value.threads-agree")
class ClipsInAModulesBuffer(ByValue):
    """Clip in a buffer of the module."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        buffer = _find_buffer(grad)
        np.minimum(grad, grad.dtype.type(high), out=buffer)
        return np.asarray(np.maximum(buffer, grad.dtype.type(low)))


@caught_by("threads-agree")
class ThresholdInAModule(NormClipper):
    """Keep the threshold in the module while scaling."""

    def check(self, clip_norm: float) -> None:
        super().check(clip_norm)
        OPTIONS["clip_norm"] = clip_norm

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, OPTIONS["clip_norm"], norm)


@caught_by("value.threads-agree")
class BoundsInAModule(ByValue):
    """Keep the bounds in the module while clipping."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        OPTIONS["bounds"] = super().fill_bounds(low, high)
        return super().fill_bounds(low, high)

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(grad, *OPTIONS["bounds"])


@caught_by("threads-agree")
class FlagsInAModule(Clipper):
    """Keep `need_clip` in the module while clipping."""

    def clip_all(self, grads: Gradients, need_clip: Sequence[bool], clip_one: Callable[[int], Array]) -> Any:
        OPTIONS["need_clip"] = need_clip
        return super().clip_all(grads, need_clip, clip_one)

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().select_included(grads, OPTIONS.get("need_clip", need_clip))


@caught_by("threads-agree")
class OrderInAModule(NormClipper):
    """Keep the order of the norm in the module while summing."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        OPTIONS["norm_type"] = p
        return super().compute_norms(grads, counted, p)

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_norm(tensors, OPTIONS["norm_type"])
