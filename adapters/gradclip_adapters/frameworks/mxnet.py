"""Adapt MXNet: `gluon.utils.clip_global_norm`, the operator `nd.clip`, and `clip_gradient` of the optimizer SGD."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import mxnet as mx
from mxnet.gluon.utils import clip_global_norm

from ..contract import About, Array, Call, EntryPoint, FrameworkRaised, Gradient, Reply, Unsupported
from .answering import CALLS, ListAdapter, apply_to_all, apply_to_each

COMMON = (*CALLS, "repeated", "threads")
NORM = (*COMMON, "in_place", "returns_norm", "single")
VALUE = (*COMMON, "mixed_dtypes")


class MXNetAdapter(ListAdapter):
    """Adapter for the clips of MXNet."""

    def __init__(self) -> None:
        super().__init__(About("MXNet", mx.__version__, {"device": str(mx.current_context())}), _list_entry_points())

    def call(self, call: Call) -> Reply:
        try:
            return super().call(call)
        except FrameworkRaised as error:
            # MXNet computes in threads of its own, and raises an error again when a later call waits for them.
            for _ in range(2):
                try:
                    mx.nd.waitall()
                except mx.MXNetError:
                    continue
            raise FrameworkRaised(error.kind, _cut_trace(error.text), error.inputs) from error

    def make_tensor(self, gradient: Gradient) -> Any:
        assert gradient.array is not None
        if gradient.layout != "contiguous":
            message = "NDArrays have no strides"
            raise Unsupported(message, "interface")
        if gradient.rows is not None:
            message = "the adapter makes no RowSparseNDArray, which holds each row once"
            raise Unsupported(message)
        if gradient.array.dtype == "bfloat16":
            message = "NDArrays have no bfloat16 that NumPy could fill"
            raise Unsupported(message, "interface")
        values = gradient.array.numpy()
        if not values.size or not values.ndim:
            message = "for mx.nd, a shape without axes or with an axis of 0 is an unknown shape"
            raise Unsupported(message, "interface")
        return mx.nd.array(values, dtype=values.dtype)

    def read_array(self, tensor: Any) -> Array:
        return Array.of(tensor.asnumpy())

    def fill_tensor(self, tensor: Any, array: Array) -> None:
        tensor[:] = array.numpy()


def _cut_trace(text: str) -> str:
    """Return the text of an error without the time and the stack trace, which MXNet 1.6 adds."""
    return re.sub(r"^\[\d\d:\d\d:\d\d\] ", "", text).partition("\nStack trace:\n")[0]


def _clip_by_norm(check_isfinite: bool, gradients: Any, *, clip_norm: Any, **more: Any) -> tuple[Any, Any]:
    return gradients, clip_global_norm(gradients, clip_norm, check_isfinite, **more)


def _clip_by_operator(tensor: Any, *, max: Any, **more: Any) -> Any:
    if "min" in more:
        more["a_min"] = more.pop("min")
    return mx.nd.clip(tensor, a_max=max, **more)


def _step(gradients: Any, *, max: Any, learning_rate: float = 1.0, **more: Any) -> tuple[Any, Any]:
    optimizer = mx.optimizer.SGD(learning_rate=learning_rate, clip_gradient=max, **more)
    weights = [mx.nd.zeros(gradient.shape, dtype=gradient.dtype) for gradient in gradients]
    for index, (weight, gradient) in enumerate(zip(weights, gradients)):
        optimizer.update(index, weight, gradient, optimizer.create_state(index, weight))
    return [0 - weight for weight in weights], None


def _list_entry_points() -> list[EntryPoint]:
    halves, wide = ("float16", "float32", "float64"), ("float32", "float64")
    return [
        *(
            EntryPoint(
                f"mxnet.gluon.utils.clip_global_norm[check_isfinite={check}]",
                "clip_by_global_norm",
                wide,
                NORM,
                clip=apply_to_all(partial(_clip_by_norm, check)),
            )
            for check in (True, False)
        ),
        EntryPoint(
            "mxnet.nd.clip",
            "clip_by_value",
            halves,
            (*VALUE, "functional", "min_max", "requires_min"),
            clip=apply_to_each(_clip_by_operator),
            one_by_one=True,
        ),
        EntryPoint(
            "mxnet.optimizer.SGD(clip_gradient)",
            "clip_by_value",
            halves,
            (*VALUE, "optimizer", "learning_rate"),
            clip=apply_to_all(_step),
            one_by_one=True,
        ),
    ]
