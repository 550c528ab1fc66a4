"""Make the parameters that one rank of a mesh has: DTensors on the axes that share them, or plain tensors."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.nn import Parameter

from ...contract import Call, Gradient
from ...mesh import cut_call, find_placement, get_mesh, list_gradients
from .parameters import make_tensor

__all__ = ["convert_placement", "is_owned", "make_dtensors"]


def make_dtensors(call: Call, rank: int, device_mesh: Any) -> list[Parameter]:
    """Return the parameters of one rank. A gradient is None where the rank has none."""
    wholes = [call.gradients[place] for place in list_gradients(call, rank)]
    dtype = next((one.array.dtype for one in call.gradients if one.array is not None), "float32")
    names = list(get_mesh(call).axes)
    pairs = zip(wholes, cut_call(call, rank).gradients)
    return [_make_parameter(whole, own, getattr(torch, dtype), names, device_mesh) for whole, own in pairs]


def _make_parameter(
    whole: Gradient, own: Gradient, dtype: torch.dtype, names: Sequence[str], device_mesh: Any
) -> Parameter:
    zeros = torch.zeros((1,) if whole.array is None else whole.array.shape, dtype=dtype)
    axes = [name for name in names if not is_owned(whole, name)]
    if not axes:
        parameter = Parameter(zeros)
        parameter.grad = None if own.array is None else make_tensor(own.array)
        return parameter
    mesh = device_mesh if len(axes) == len(names) else device_mesh[tuple(axes)]

    def share(part: torch.Tensor, placements: Sequence[Placement]) -> DTensor:
        """Return a DTensor of the shape of the whole gradient."""
        return DTensor.from_local(part, mesh, placements, run_check=False, shape=zeros.shape, stride=zeros.stride())

    if own.array is None:
        return Parameter(share(zeros, [Replicate() for _ in axes]))
    part, placements = make_tensor(own.array), [convert_placement(whole, name) for name in axes]
    # A parameter is whole, also where its gradient is not yet summed.
    kept = [Replicate() if isinstance(placement, Partial) else placement for placement in placements]
    parameter = Parameter(share(torch.zeros_like(part), kept))
    parameter.grad = share(part, placements)
    return parameter


def is_owned(gradient: Gradient, axis: str) -> bool:
    """Return whether only some ranks along an axis of the mesh have a parameter."""
    return str(find_placement(gradient, axis)).startswith(("owned", "only"))


def convert_placement(gradient: Gradient, axis: str) -> Placement:
    """Return the placement of torch along an axis of the mesh that shares a gradient."""
    placement = find_placement(gradient, axis)
    if isinstance(placement, int):
        return Shard(placement)
    return Partial() if placement == "partial" else Replicate()
