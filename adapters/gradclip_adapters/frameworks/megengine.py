"""Adapt MegEngine: `clip_grad_norm` and `clip_grad_value` of `megengine.optimizer`, called on real parameters."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import megengine
import numpy as np
from megengine import Parameter, Tensor
from megengine.optimizer import clip_grad_norm, clip_grad_value

from ..contract import About, Array, Call, EntryPoint, Gradient, Reply, Unsupported
from .answering import CALLS, NORM_TYPES, ListAdapter, cut_errors, lay_out_by_indexing, rename

DTYPES = ("float16", "float32")
FEATURES = (*CALLS, "in_place", "none_grads", "mixed_dtypes", "strided", "repeated", "generator", "single")


class MegEngineAdapter(ListAdapter):
    """Adapter for the clips of MegEngine on the CPU."""

    def __init__(self) -> None:
        # By default, MegEngine computes in the background. A later call then reports the error of an earlier one, and
        # the gradients that the earlier call clipped can no longer be read.
        megengine.config.async_level = 0
        super().__init__(
            About("MegEngine", megengine.__version__, {"device": megengine.get_default_device()}),
            [
                EntryPoint(
                    "megengine.optimizer.clip_grad_norm",
                    "clip_by_global_norm",
                    DTYPES,
                    (*FEATURES, "returns_norm", "norm_type"),
                    NORM_TYPES,
                    clip=_clip_by_norm,
                ),
                EntryPoint(
                    "megengine.optimizer.clip_grad_value",
                    "clip_by_value",
                    DTYPES,
                    (*FEATURES, "min_max", "requires_min"),
                    clip=_clip_by_value,
                ),
            ],
        )

    def call(self, call: Call) -> Reply:
        if "threads" in call.options:
            message = "MegEngine makes a tensor only in the thread that imported it: another thread fails an assertion"
            raise Unsupported(message, "interface")
        return super().call(call)

    def make_tensor(self, gradient: Gradient) -> Any:
        """Return a tensor with the layout that MegEngine's own indexing gives."""
        assert gradient.array is not None
        if gradient.rows is not None or gradient.array.dtype not in DTYPES:
            message = "tensors of MegEngine are not row-sparse, and are made of float16 or float32"
            raise Unsupported(message, "interface")
        return lay_out_by_indexing(gradient.array.numpy(), gradient.layout, Tensor)

    def read_array(self, tensor: Any) -> Array:
        return Array.of(tensor.numpy())

    def fill_tensor(self, tensor: Any, array: Array) -> None:
        tensor[...] = array.numpy()


def _make_parameter(gradient: Any) -> Any:
    shape, dtype = ((1,), "float32") if gradient is None else (gradient.shape, gradient.dtype)
    parameter = Parameter(np.zeros(shape, dtype))
    parameter.grad = gradient
    return parameter


@cut_errors("\n\nbacktrace:")
def _clip(function: Callable[..., Any], passed: Any, more: Mapping[str, Any]) -> tuple[Any, Any]:
    """Make parameters with the gradients, clip, and return the gradients that the parameters then have."""
    if isinstance(passed, Tensor):
        parameter = _make_parameter(passed)
        norm = function(parameter, **more)
        return parameter.grad, norm
    made: dict[int, Any] = {}
    # A gradient that occurs twice belongs to a parameter that occurs twice.
    parameters = [made.setdefault(id(gradient), _make_parameter(gradient)) for gradient in passed]
    norm = function(parameters if isinstance(passed, list) else iter(parameters), **more)
    return [parameter.grad for parameter in parameters], norm


def _clip_by_norm(passed: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
    return _clip(clip_grad_norm, passed, rename(options, clip_norm="max_norm", norm_type="ord"))


def _clip_by_value(passed: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
    return _clip(clip_grad_value, passed, rename(options, min="lower", max="upper"))
