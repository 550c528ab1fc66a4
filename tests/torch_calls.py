"""Compare adapters of packages on torch with direct calls of the packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from gradclip_adapters.contract import Adapter, Array, Call, Gradient
from gradclip_adapters.frameworks.torch_based.parameters import read_array

__all__ = ["THRESHOLDS", "answer_by_adapter", "answer_by_hand"]

#: The option that holds the threshold, where it is not `clip_norm`.
OPTIONS = {"clip_by_value": "max", "clip_unitwise": "clip_factor"}

#: The first threshold clips, and the second one does not.
THRESHOLDS = (1.5, 64.0)
VALUES = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0], 7.0)

#: The gradients after a call, and the norm if one is returned.
Answer = tuple[list[Array | None], Array | None]


def make_tensors(dtype: str) -> list[torch.Tensor]:
    """Return three tensors."""
    return [torch.tensor(values, dtype=getattr(torch, dtype)) for values in VALUES]


def make_gradients(dtype: str) -> tuple[Gradient, ...]:
    """Return three gradients with a None among them."""
    first, *rest = (Gradient(f"g{number}", read_array(one)) for number, one in enumerate(make_tensors(dtype)))
    return (first, Gradient("none", None), *rest)


def make_parameter(gradient: Gradient) -> Gradient:
    """Add a parameter of ones to a gradient, for a clip that depends on the parameter."""
    if gradient.array is None:
        return gradient
    ones = torch.ones(gradient.array.shape, dtype=getattr(torch, gradient.array.dtype))
    return replace(gradient, parameter=read_array(ones))


def answer_by_adapter(adapter: Adapter, subject: str, dtype: str, threshold: float, **options: Any) -> Answer:
    """Make a call through the adapter, with gradients of a dtype."""
    passed = make_gradients(dtype)
    (operation,) = (one.operation for one in adapter.subjects() if one.name == subject)
    if operation == "clip_unitwise":
        passed = tuple(map(make_parameter, passed))
    call = Call(subject, passed, {OPTIONS.get(operation, "clip_norm"): threshold, **options})
    reply = adapter.call(call)
    return list(reply.gradients), reply.norm


def answer_by_hand(clip: Callable[[Sequence[torch.nn.Parameter]], Any], dtype: str, start: float = 0.0) -> Answer:
    """Make parameters with the same gradients and some first value, pass them to a function, and read them."""
    parameters = []
    for tensor in make_tensors(dtype):
        parameters.append(torch.nn.Parameter(torch.full_like(tensor, start)))
        parameters[-1].grad = tensor
    parameters.insert(1, torch.nn.Parameter(torch.zeros(1, dtype=getattr(torch, dtype))))
    norm = clip(parameters)
    gradients = [None if one.grad is None else read_array(one.grad) for one in parameters]
    return gradients, None if norm is None else read_array(norm)
