"""Make the parameters that one rank of a mesh has: DTensors on the axes that share them, or plain tensors."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import torch
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.nn import Parameter

from ...arrays import find_dtype
from ...contract import Call, Gradient
from ...mesh import cut_call, find_placement, get_mesh, list_gradients
from .engine_meshes import is_owned
from .parameters import make_tensor


def make_dtensors(call: Call, rank: int, device_mesh: Any) -> list[Parameter]:
    """Return the parameters of one rank. A gradient is None where the rank has none."""
    dtype, names = getattr(torch, find_dtype(call.gradients)), list(get_mesh(call).axes)
    return [_make_parameter(whole, own, dtype, names, device_mesh) for whole, own in _list_pairs(call, rank)]


def make_with_experts(call: Call, rank: int, dense: Any, sparse: Any) -> list[Parameter]:
    """Return the parameters of one rank of a model with experts: DTensors on two meshes of the same ranks.

    The experts of all ranks along the last axis are one DTensor on the mesh `sparse`, and each rank has a part of it.
    """
    dtype, names = getattr(torch, find_dtype(call.gradients)), list(get_mesh(call).axes)
    parameters = []
    for whole, own in _list_pairs(call, rank):
        if whole.array is None or not is_owned(whole, names[-1]):
            parameters.append(_make_parameter(whole, own, dtype, names, dense))
            continue
        first, *rest = whole.array.shape
        shape = (first * sparse.size(sparse.ndim - 1), *rest)
        placements = [*(convert_placement(whole, name) for name in names[:-1]), Shard(0)]
        parameters.append(_make_dtensor(own, shape, placements, sparse, dtype))
    return parameters


def _list_pairs(call: Call, rank: int) -> Iterator[tuple[Gradient, Gradient]]:
    """Return the gradients in the list of a rank, each whole and as the part of this rank."""
    wholes = (call.gradients[place] for place in list_gradients(call, rank))
    return zip(wholes, cut_call(call, rank).gradients)


def _make_parameter(
    whole: Gradient, own: Gradient, dtype: torch.dtype, names: Sequence[str], device_mesh: Any
) -> Parameter:
    shape = (1,) if whole.array is None else whole.array.shape
    axes = [name for name in names if not is_owned(whole, name)]
    if not axes:
        parameter = Parameter(torch.zeros(shape, dtype=dtype))
        parameter.grad = None if own.array is None else make_tensor(own.array)
        return parameter
    mesh = device_mesh if len(axes) == len(names) else device_mesh[tuple(axes)]
    return _make_dtensor(own, shape, [convert_placement(whole, name) for name in axes], mesh, dtype)


def _make_dtensor(
    own: Gradient, shape: tuple[int, ...], placements: Sequence[Placement], mesh: Any, dtype: torch.dtype
) -> Parameter:
    """Return a parameter of a shape. `own` is the part of its gradient that this rank has."""
    zeros = torch.zeros(shape, dtype=dtype)

    def share(part: torch.Tensor, placements: Sequence[Placement]) -> DTensor:
        """Return a DTensor of the shape of the whole gradient."""
        return DTensor.from_local(part, mesh, placements, run_check=False, shape=zeros.shape, stride=zeros.stride())

    if own.array is None:
        return Parameter(share(zeros, [Replicate() for _ in placements]))
    part = make_tensor(own.array)
    # A parameter is whole, also where its gradient is not yet summed.
    kept = [Replicate() if isinstance(placement, Partial) else placement for placement in placements]
    parameter = Parameter(share(torch.zeros_like(part), kept))
    parameter.grad = share(part, placements)
    return parameter


def convert_placement(gradient: Gradient, axis: str) -> Placement:
    """Return the placement of torch along an axis of the mesh that shares a gradient."""
    placement = find_placement(gradient, axis)
    if isinstance(placement, int):
        return Shard(placement)
    return Partial() if placement == "partial" else Replicate()
