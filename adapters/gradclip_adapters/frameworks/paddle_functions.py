"""Adapt Paddle's functions on one tensor: `paddle.clip`, `paddle.Tensor.clip_` and `paddle.nn.clip.clip_by_norm`."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import paddle

from ..arrays import surround
from ..contract import About, Array, EntryPoint, Gradient, Unsupported
from ..linear_layers import read_values
from .answering import ListAdapter, apply_to_each

__all__ = ["BOTH", "FUNCTIONS", "make_tensor"]

#: The dtypes of gradients on a CPU. No CPU kernel of a clip takes 16 bits.
BOTH = ("float32", "float64")


def make_tensor(gradient: Gradient) -> Any:
    """Return a tensor with the values of a gradient, in the memory layout that the gradient asks for."""
    assert gradient.array is not None
    if gradient.rows is not None:
        message = "row-sparse gradients come only from the backward pass of an embedding"
        raise Unsupported(message)
    values = read_values(gradient.array)
    # Without elements, all layouts are the same.
    if gradient.layout == "contiguous" or values.ndim == 0 or not values.size:
        return paddle.to_tensor(values)
    # `to_tensor` copies into row-major order, so only a view has another layout.
    if gradient.layout == "strided":
        return paddle.to_tensor(np.repeat(values, 2, axis=-1))[..., ::2]
    if gradient.layout == "transposed":
        return paddle.to_tensor(values.T.copy()).transpose(list(reversed(range(values.ndim))))
    if gradient.layout == "sliced":
        buffer, index = surround(values)
        return paddle.to_tensor(buffer)[index]
    message = f"no tensor of Paddle has the layout {gradient.layout!r}"
    raise Unsupported(message, "interface")


class _Functions(ListAdapter):
    """The entry points that take one tensor."""

    def make_tensor(self, gradient: Gradient) -> Any:
        """Return a tensor."""
        return make_tensor(gradient)

    def read_array(self, tensor: Any) -> Array:
        """Return the elements."""
        return Array.of(tensor.numpy())

    def fill_tensor(self, tensor: Any, array: Array) -> None:
        """Write elements into a tensor."""
        values = read_values(array)
        if values.ndim:
            # `set_value` would make a view contiguous.
            tensor[...] = paddle.to_tensor(values)
        else:
            # Paddle assigns by index only to tensors with axes.
            tensor.set_value(values)


def _clip_by_norm(tensor: Any, *, clip_norm: Any, **more: Any) -> Any:
    return paddle.nn.clip.clip_by_norm(tensor, clip_norm, **more)


def _clip(tensor: Any, **bounds: Any) -> Any:
    return paddle.clip(tensor, **bounds)


def _clip_in_place(tensor: Any, **bounds: Any) -> Any:
    return tensor.clip_(**bounds)


def _make_entry(
    name: str, operation: str, dtypes: tuple[str, ...], clip: Callable[..., Any], *features: str
) -> EntryPoint:
    shared = ("repeated", "strided", "single", "threads", "tensor_threshold", "reuses")
    return EntryPoint(name, operation, dtypes, (*shared, *features), clip=apply_to_each(clip), one_by_one=True)


VALUE = ("mixed_dtypes", "min_max", "requires_min")
FUNCTIONS = _Functions(
    About("Paddle", paddle.__version__),
    [
        # "The input of clip_by_norm and data type is float32."
        _make_entry("paddle.nn.clip.clip_by_norm", "clip_by_norm", ("float32",), _clip_by_norm, "functional"),
        _make_entry("paddle.clip", "clip_by_value", BOTH, _clip, "functional", *VALUE),
        _make_entry("paddle.Tensor.clip_", "clip_by_value", BOTH, _clip_in_place, "in_place", *VALUE),
    ],
)
