"""Adapt NNabla: `functions.clip_by_value`, `functions.clip_by_norm`, and a solver's `clip_grad_by_norm`."""

from __future__ import annotations

import logging
from typing import Any, Sequence

# NNabla logs on standard error that it starts, with the time. The reason of a crash would quote this line. So the
# imports below come after a statement.
logging.disable(logging.INFO)

import nnabla  # noqa: E402
from nnabla import functions, solvers  # noqa: E402

logging.disable(logging.NOTSET)

from ..contract import About, Array, EntryPoint, Gradient, Unsupported  # noqa: E402
from .answering import CALLS, ListAdapter, apply_to_all, apply_to_each  # noqa: E402

DTYPES = ("float32",)
FEATURES = (*CALLS, "repeated", "threads")


class NNablaAdapter(ListAdapter):
    """Adapter for the clips of NNabla on the CPU."""

    def __init__(self) -> None:
        environment = {"backend": str(nnabla.get_current_context().backend)}
        super().__init__(
            About("NNabla", nnabla.__version__, environment),
            [
                EntryPoint(
                    "nnabla.functions.clip_by_value",
                    "clip_by_value",
                    DTYPES,
                    (*FEATURES, "functional", "min_max", "requires_min"),
                    clip=apply_to_each(_clip_by_value),
                    one_by_one=True,
                ),
                EntryPoint(
                    "nnabla.functions.clip_by_norm",
                    "clip_by_norm",
                    DTYPES,
                    (*FEATURES, "functional"),
                    clip=apply_to_each(_clip_by_norm),
                    one_by_one=True,
                ),
                EntryPoint(
                    "nnabla.solvers.Sgd.clip_grad_by_norm",
                    "clip_by_norm",
                    DTYPES,
                    (*FEATURES, "optimizer", "learning_rate"),
                    clip=apply_to_all(_step),
                ),
            ],
        )

    def make_tensor(self, gradient: Gradient) -> Any:
        assert gradient.array is not None
        if gradient.layout != "contiguous" or gradient.rows is not None:
            message = "NdArrays have no strides, and are not row-sparse"
            raise Unsupported(message, "interface")
        if gradient.array.dtype != "float32":
            message = "NdArrays are filled in float32"
            raise Unsupported(message, "interface")
        return nnabla.NdArray.from_numpy_array(gradient.array.numpy())

    def read_array(self, tensor: Any) -> Array:
        return Array.of(tensor.data)

    def fill_tensor(self, tensor: Any, array: Array) -> None:
        tensor.data = array.numpy()


def _clip_by_value(gradient: Any, *, max: Any, **more: Any) -> Any:
    return functions.clip_by_value(gradient, max=max, **more)


def _clip_by_norm(gradient: Any, *, clip_norm: Any, **more: Any) -> Any:
    return functions.clip_by_norm(gradient, clip_norm, **more)


def _step(
    gradients: Sequence[Any], *, clip_norm: Any, learning_rate: float = 1.0, **more: Any
) -> tuple[list[Any], None]:
    """Return the negated parameters after a step from zero."""
    parameters = {}
    for index, gradient in enumerate(gradients):
        parameters[str(index)] = parameter = nnabla.Variable(gradient.shape, need_grad=True)
        parameter.data.zero()
        parameter.grad = gradient
    solver = solvers.Sgd(lr=learning_rate)
    solver.set_parameters(parameters)
    solver.clip_grad_by_norm(clip_norm, **more)
    solver.update()
    return [0 - parameter.data for parameter in parameters.values()], None
