"""Call clips of torch parameters on engines with meshes of two axes.

The engines are DTensor, HSDP, FSDP2 with tensor parallelism, and DTensors of torchtitan's models with experts.

Their processes announce the collectives of a clip (see `watched_team`), so ranks that do not match are told at once.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, Callable, Mapping, Sequence

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn import Parameter

from ...contract import Call, Gradient, Reply, Unsupported
from ...mesh import Mesh, find_placement, get_mesh
from ...processes import Answer, Ask, Join, find_team
from ...watched_team import WatchedTeam
from .distributed import (
    clip_parameters,
    list_addends,
    list_tensors,
    make_fully_sharded,
    make_zeros,
)
from .dtensors import convert_placement, has_equal_experts, is_owned, make_dtensors, make_with_experts
from .engine_meshes import DTENSOR, EXPERTS, HYBRID, TENSOR_PARALLEL
from .given_gradients import GivenGradients
from .parameters import Clip
from .process_group import import_engines, join_group, set_variables
from .watched_collectives import WatchedCollectives

__all__ = ["answer_on_mesh", "load"]


def answer_on_mesh(call: Call, clip: Clip) -> Reply:
    """Return the answer of the processes of the call's mesh and clip."""
    mesh = get_mesh(call)
    _refuse_parts(call, mesh)
    name = f"{clip.__module__}:{clip.__qualname__}"
    return find_team(__name__, mesh.size, WatchedTeam, mesh=mesh.axes, clip=name).call(call)


def _refuse_parts(call: Call, mesh: Mesh) -> None:
    """Refuse gradients that the engine does not have.

    Raises
    ------
    Unsupported
        If only some ranks have a gradient of FSDP2, if FSDP2 does not split a gradient as the call says, or if ranks
        have experts of different shapes.
    """
    if DTENSOR in call.subject:
        return
    if EXPERTS in call.subject:
        if not has_equal_experts(call) or any(is_owned(gradient, "shard") for gradient in call.gradients):
            message = "torchtitan's ranks have as many experts, of the same shapes, along the axis of experts only"
            raise Unsupported(message, "interface")
        return
    for gradient in call.gradients:
        if any(is_owned(gradient, name) for name in mesh.axes):
            message = "every process of FSDP2 has a part of each parameter"
            raise Unsupported(message, "interface")
        shape = () if gradient.array is None else gradient.array.shape
        sharded, split = find_placement(gradient, "shard"), find_placement(gradient, "tensor")
        if isinstance(split, int) and shape and shape[split] == 1:
            message = "DTensor's backward pass gives all ranks a gradient that is split along an axis of one element"
            raise Unsupported(message, "interface")
        if isinstance(sharded, int) and shape and sharded and shape[sharded] % mesh.axes["shard"]:
            message = "FSDP2 splits unevenly along the first axis only"
            raise Unsupported(message, "interface")
        if isinstance(sharded, int) and sharded == split:
            message = "FSDP2 splits the parts of tensor parallelism, and the call has the parts in another order"
            raise Unsupported(message)


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
