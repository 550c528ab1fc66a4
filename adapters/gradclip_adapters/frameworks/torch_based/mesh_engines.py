"""Clip parameters of torch on one rank of an engine with a mesh of two axes (see `engine_meshes`).

The processes announce the collectives of a clip (see `watched_team`), so ranks that do not match are told at once.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, Callable, Mapping, Sequence

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn import Parameter

from ...contract import Call, Gradient, Reply
from ...mesh import Mesh, find_placement
from ...processes import Answer, Ask, Join
from .distributed import (
    clip_parameters,
    import_engines,
    join_group,
    list_addends,
    list_tensors,
    make_fully_sharded,
    make_zeros,
    set_variables,
)
from .dtensors import convert_placement, make_dtensors, make_with_experts
from .engine_meshes import DTENSOR, EXPERTS, HYBRID, TENSOR_PARALLEL
from .parameters import Clip, GivenGradients
from .watched_collectives import WatchedCollectives


def load(mesh: Mapping[str, int], clip: str) -> Join:
    """Return the function that makes a process a rank of the mesh. `clip` is the name of a function in a module."""
    import_engines()
    module, _, name = clip.partition(":")
    function: Clip = getattr(importlib.import_module(module), name)

    def join(rank: int, world: int, folder: str, ask: Ask) -> Answer:
        set_variables(rank, world)
        join_group(rank, world, folder)
        device_mesh = init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))
        watched = WatchedCollectives(Mesh(mesh), rank, ask)

        def answer(call: Call) -> Reply:
            parameters = BUILDERS[call.subject.rpartition("[")[2].rstrip("]")](call, rank, device_mesh)
            return clip_parameters(call, parameters, function, watched)

        return answer

    return join


def _make_tensor_parallel(call: Call, rank: int, device_mesh: Any) -> list[Parameter]:
    """Return the parameters of a module after a backward pass. They are DTensors on the axis of tensor parallelism.

    FSDP2 then shards those that the call splits along its axis, and ignores the others.
    """
    del rank
    mesh = device_mesh["tensor"]
    mean = Mesh({"shard": device_mesh["shard"].size()})
    # FSDP2 averages over its own axis only: the ranks along the other axis have the parts of one gradient.
    addends = list_addends(call, device_mesh.get_coordinate()[0], mean)
    wholes = list_tensors(call)
    parameters: list[Parameter] = []
    ignored: list[Parameter] = []
    axes: dict[int, int] = {}
    for gradient, whole, addend, zeros in zip(call.gradients, wholes, addends, make_zeros(wholes)):
        parameter = Parameter(_distribute(zeros, gradient, mesh))
        placement = find_placement(gradient, "shard")
        is_ignored = whole is not None and not isinstance(placement, int)
        given = whole if is_ignored else addend
        parameter.grad = None if given is None else _distribute(given, gradient, mesh)
        axes[id(parameter)] = placement if isinstance(placement, int) else 0
        ignored += [parameter] if is_ignored else []
        parameters.append(parameter)
    model = GivenGradients(parameters)
    fully_shard(
        model,
        mesh=device_mesh["shard"],
        shard_placement_fn=lambda parameter: Shard(axes[id(parameter)]),
        ignored_params=set(ignored),
    )
    model().backward()
    return list(model.held)


def _make_with_experts(call: Call, rank: int, device_mesh: Any) -> list[Parameter]:
    """Return the parameters of a model with experts, on the meshes that torchtitan makes for it.

    The mesh of experts has an axis `ep`, by which the clip knows them. The mesh of all others has the same ranks.
    """
    shape = tuple(device_mesh.shape)
    return make_with_experts(call, rank, _make_mesh(shape, ("fsdp", "tp")), _make_mesh(shape, ("efsdp", "ep")))


# Each new mesh makes groups of processes.
@functools.lru_cache(None)
def _make_mesh(shape: tuple[int, ...], names: tuple[str, ...]) -> Any:
    return init_device_mesh("cpu", shape, mesh_dim_names=names)


def _distribute(tensor: Any, gradient: Gradient, mesh: Any) -> Any:
    # Without a source, each process takes its part of its own copy.
    return distribute_tensor(tensor, mesh, [convert_placement(gradient, "tensor")], src_data_rank=None)


#: The functions that make the parameters of each engine.
BUILDERS: dict[str, Callable[[Call, int, Any], Sequence[Parameter]]] = {
    DTENSOR: make_dtensors,
    HYBRID: make_fully_sharded,
    TENSOR_PARALLEL: _make_tensor_parallel,
    EXPERTS: _make_with_experts,
}
