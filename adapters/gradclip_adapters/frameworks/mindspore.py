"""Adapt MindSpore: the clips of `mindspore.ops`, and `mindspore.nn.ClipByNorm`, direct and under `mindspore.jit`."""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping

# Without this variable, MindSpore writes warnings to standard error: one for each compilation and each empty tensor.
os.environ.setdefault("GLOG_v", "4")

import mindspore
from mindspore import Tensor, nn, ops

from ..arrays import read_axes
from ..contract import About, Array, Call, EntryPoint, Gradient, Reply, Unsupported
from .answering import CALLS, NORM_TYPES, Clip, ListAdapter, cut_errors, lay_out_by_indexing, rename

DTYPES = ("float16", "float32", "float64")
FEATURES = (*CALLS, "functional", "mixed_dtypes", "strided", "repeated", "tensor_threshold", "compiles")
#: What stands before the call stacks in the text of an error.
CALL_STACKS = "\n\n----"


class MindSporeAdapter(ListAdapter):
    """Adapter for the clips of MindSpore on the CPU."""

    def __init__(self) -> None:
        about = About("MindSpore", mindspore.__version__, {"device": mindspore.get_context("device_target")})
        super().__init__(about, _list_entry_points())

    def call(self, call: Call) -> Reply:
        if "threads" in call.options:
            message = "a call in several threads at once returns other results by chance, and no document allows it"
            raise Unsupported(message, "interface")
        return super().call(call)

    def make_tensor(self, gradient: Gradient) -> Any:
        """Return a tensor with the layout that MindSpore's own indexing gives."""
        assert gradient.array is not None
        if gradient.rows is not None:
            message = "the clips of MindSpore take tensors that are not row-sparse"
            raise Unsupported(message, "interface")
        if gradient.array.dtype not in DTYPES:
            message = "on a CPU, MindSpore has no kernels for the powers and products of bfloat16"
            raise Unsupported(message, "kernel")
        return lay_out_by_indexing(gradient.array.numpy(), gradient.layout, Tensor)

    def make_scalar(self, value: float, dtype: str) -> Any:
        """Return a threshold as a tensor without axes. It is in float32, whichever dtype the gradients have."""
        del dtype
        return Tensor(value, mindspore.float32)

    @cut_errors(CALL_STACKS)
    def read_array(self, tensor: Any) -> Array:
        """Return the elements, once MindSpore has computed them."""
        return Array.of(tensor.asnumpy())

    def fill_tensor(self, tensor: Any, array: Array) -> None:
        # An assignment to a part of a tensor without elements raises an error.
        if array.data:
            tensor[...] = Tensor(array.numpy())


def _compute(result: Any) -> Any:
    """Return a result once MindSpore has computed it.

    MindSpore computes in another thread. It raises the error of a kernel in whichever call waits next, even for
    another tensor. Here this is the call that made the result.
    """
    for tensor in result if isinstance(result, (list, tuple)) else [result]:
        tensor.asnumpy()
    return result


def _wrap(function: Callable[..., Any], **names: str) -> dict[str, Any]:
    """Return the clips of an entry point that call a function of MindSpore: directly, and compiled."""

    @cut_errors(CALL_STACKS)
    def clip(passed: Any, options: Mapping[str, Any]) -> tuple[Any, None]:
        return _compute(function(passed, **rename(options, **names))), None

    @cut_errors(CALL_STACKS)
    def compiled(passed: Any, options: Mapping[str, Any]) -> tuple[Any, None]:
        returned = mindspore.jit(function)(passed, **rename(options, **names))
        # In place of a list, it may return a tensor without axes, which raises an error as soon as it is read.
        return _compute(tuple(returned) if isinstance(passed, (list, tuple)) else returned), None

    return {"clip": clip, "compiled": compiled}


def _clip_each(convert: Callable[[Any], Any]) -> Clip:
    """Return a clip that calls the layer, or what a function makes of the layer, on each tensor in turn."""

    @cut_errors(CALL_STACKS)
    def clip(tensors: Any, options: Mapping[str, Any]) -> tuple[list[Any], None]:
        # The layer takes its threshold as a tensor only.
        threshold = Tensor(options["clip_norm"], mindspore.float32)
        layer = convert(nn.ClipByNorm(read_axes(options)))
        return [_compute(layer(tensor, threshold)) for tensor in tensors], None

    return clip


def _list_entry_points() -> list[EntryPoint]:
    single = (*FEATURES, "single")
    found = [
        EntryPoint(
            "mindspore.ops.clip_by_global_norm",
            "clip_by_global_norm",
            DTYPES,
            FEATURES,
            **_wrap(ops.clip_by_global_norm),
        ),
        EntryPoint(
            "mindspore.ops.clip_by_value",
            "clip_by_value",
            DTYPES,
            (*single, "min_max", "requires_min"),
            **_wrap(ops.clip_by_value, min="clip_value_min", max="clip_value_max"),
        ),
        EntryPoint(
            "mindspore.nn.ClipByNorm",
            "clip_by_norm",
            ("float16", "float32"),
            (*single, "axes"),
            clip=_clip_each(lambda layer: layer),
            compiled=_clip_each(mindspore.jit),
            one_by_one=True,
        ),
    ]
    # MindSpore 2.0 does not have it yet.
    if hasattr(ops, "clip_by_norm"):
        by_norm = EntryPoint(
            "mindspore.ops.clip_by_norm",
            "clip_by_global_norm",
            DTYPES,
            (*single, "norm_type", "error_if_nonfinite"),
            NORM_TYPES,
            **_wrap(ops.clip_by_norm, clip_norm="max_norm"),
        )
        found.insert(0, by_norm)
    return found
