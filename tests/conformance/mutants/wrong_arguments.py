"""Define mutants that are wrong if the threshold is a tensor or an integer, or if the norm is over some axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradclip_adapters.arrays import convert_thresholds, read_axes
from gradclip_adapters.contract import Call

from .steps import Array, ByNorm, ByValue, Gradients, NormFunction
from .table import caught_by
from .wrong_adapters import WithAbilities


class TakesTensors(WithAbilities):
    """Adapter that passes the threshold as an array without axes if a case asks for one."""

    features = ("tensor_threshold",)

    def call_function(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """Call the function with an array as its threshold."""
        if call.options.get("tensor_threshold"):
            options = convert_thresholds(options, lambda value: np.array(value, grads[0].dtype))
        return self._function(grads, **options)


class TakesAxes(WithAbilities):
    """Adapter that tells the function the axes of the norm if a case names them."""

    features = ("axes",)

    def call_function(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """Call the function on each gradient by itself, because the axes belong to its shape."""
        axes = read_axes(call.options)
        if axes is None:
            return self._function(grads, **options)
        return [self._function.clip_over_axes(grad, axes, options["clip_norm"]) for grad in grads]


class OverAxes(ByNorm):
    """Clip each slice of a gradient by its own norm. This is right; each mutant changes a step."""

    def clip_over_axes(self, grad: Array, axes: Sequence[int], clip_norm: float) -> Array:
        """Return the gradient with each slice clipped."""
        chosen = self.choose_axes([axis % grad.ndim for axis in axes], grad.ndim)
        norms = np.sqrt((grad.astype(float) ** 2).sum(tuple(chosen), keepdims=True))
        scaled = grad * (clip_norm / np.where(norms > 0, norms, 1.0))
        return np.where(self.select_slices(norms, clip_norm), scaled, grad).astype(grad.dtype)

    def choose_axes(self, axes: Sequence[int], dimensions: int) -> Sequence[int]:
        """Return the axes of the norm; here, the right ones."""
        return axes

    def select_slices(self, norms: Array, clip_norm: float) -> Array:
        """Return which slices to scale; here, those whose norm is above the threshold."""
        return norms > clip_norm


@caught_by("tensor-threshold", adapter=TakesTensors)
class TensorIsTrue(NormFunction):
    """Read a threshold that is a tensor as true or false, that is, as 1 or 0."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, float(bool(clip_norm)) if isinstance(clip_norm, np.ndarray) else clip_norm, norm)


@caught_by("tensor-threshold", adapter=TakesTensors)
class ClipsWithoutTensors(NormFunction):
    """Leave gradients as they are if the threshold is a tensor."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return grad if isinstance(clip_norm, np.ndarray) else super().clip(grad, clip_norm, norm)


@caught_by("value.tensor-threshold", adapter=TakesTensors)
class TensorBoundIsTen(ByValue):
    """Read an upper bound that is a tensor as 10."""

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        below, above = super().fill_bounds(low, high)
        return (below, 10.0) if isinstance(high, np.ndarray) else (below, above)


@caught_by("norm.norm-over-axes", adapter=TakesAxes)
class FirstNamedAxis(OverAxes):
    """Take the norms over the first of the named axes only."""

    def choose_axes(self, axes: Sequence[int], dimensions: int) -> Sequence[int]:
        return axes[:1]


@caught_by("integer-threshold")
class IntegerResults(ByValue):
    """Round the results to integers if the threshold is an integer."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        clipped = super().clip(grad, low, high)
        return clipped.astype(type(high)).astype(grad.dtype)


@caught_by("integer-threshold")
class FloatsAlone(NormFunction):
    """Refuse a threshold that is not a float."""

    def check(self, clip_norm: float) -> None:
        super().check(clip_norm)
        if not isinstance(clip_norm, float):
            message = f"clip_norm is {clip_norm!r}: give a float"
            raise TypeError(message)
