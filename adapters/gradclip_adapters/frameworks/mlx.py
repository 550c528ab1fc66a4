"""Adapt MLX: `mlx.optimizers.clip_grad_norm`, eager and in `mx.compile`, and `mlx.nn.utils.clip_grad_norm_sharded`."""

from __future__ import annotations

import shutil
from typing import Any, Callable, Mapping

import mlx.core as mx
import numpy as np
from mlx.nn import utils
from mlx.optimizers import clip_grad_norm

from ..contract import About, Array, EntryPoint, Gradient, Unsupported
from .answering import CALLS, Clip, ListAdapter, apply_to_all, lay_out_by_indexing

#: On the CPU, `mx.compile` calls this compiler.
COMPILER = shutil.which("g++")
FEATURES = (*CALLS, "functional", "returns_norm", "mixed_dtypes", "strided", "repeated", "single", "threads")


class MLXAdapter(ListAdapter):
    """Adapter for the clip functions of MLX."""

    def __init__(self) -> None:
        environment = {"device": str(mx.default_device()), "compiler": "g++" if COMPILER else "none"}
        super().__init__(About("MLX", mx.__version__, environment), _list_entry_points())

    def make_tensor(self, gradient: Gradient) -> mx.array:
        if gradient.rows is not None:
            message = "arrays of MLX are not row-sparse"
            raise Unsupported(message, "interface")
        assert gradient.array is not None
        return lay_out_by_indexing(gradient.array.bits(), gradient.layout, _choose_maker(gradient.array))

    def read_array(self, tensor: mx.array) -> Array:
        """Return the elements. They pass through NumPy as integers, because NumPy has no bfloat16."""
        if tensor.dtype == mx.bfloat16:
            return Array.of(np.array(tensor.view(mx.uint16)), "bfloat16")
        return Array.of(np.array(tensor))

    def fill_tensor(self, tensor: mx.array, array: Array) -> None:
        # MLX 0.29 takes no ellipsis here.
        tensor[(slice(None),) * tensor.ndim] = _choose_maker(array)(array.bits())


def _choose_maker(array: Array) -> Callable[[np.ndarray[Any, Any]], mx.array]:
    """Return a function that makes an array of MLX from bits, because NumPy has no bfloat16."""

    def make(bits: np.ndarray[Any, Any]) -> mx.array:
        if array.dtype == "bfloat16":
            return mx.array(bits).view(mx.bfloat16)
        # Without a dtype, MLX turns float64 into float32.
        return mx.array(bits.view(array.dtype), getattr(mx, array.dtype))

    return make


def _wrap(function: Callable[..., Any]) -> Clip:
    return apply_to_all(lambda gradients, *, clip_norm, **more: function(gradients, clip_norm, **more))


def _compile(gradients: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
    clip = mx.compile(lambda passed: _wrap(clip_grad_norm)(passed, options))
    clipped, norm = clip(gradients)
    return clipped, norm


def _list_entry_points() -> list[EntryPoint]:
    operation, dtypes = "clip_by_global_norm", ("float16", "bfloat16", "float32", "float64")
    features, clip = (*FEATURES, "compiles") if COMPILER else FEATURES, _wrap(clip_grad_norm)
    found = [EntryPoint("mlx.optimizers.clip_grad_norm", operation, dtypes, features, clip=clip, compiled=_compile)]
    # MLX 0.29 does not have it yet.
    if hasattr(utils, "clip_grad_norm_sharded"):
        clip = _wrap(utils.clip_grad_norm_sharded)
        found.append(EntryPoint("mlx.nn.utils.clip_grad_norm_sharded", operation, dtypes, FEATURES, clip=clip))
    return found
