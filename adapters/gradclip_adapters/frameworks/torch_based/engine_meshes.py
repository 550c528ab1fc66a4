"""List the entry points of clips of torch parameters on engines with meshes of two axes, and let processes answer.

The engines are DTensor, HSDP, FSDP2 with tensor parallelism, and DTensors of torchtitan's models with experts.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from ...contract import Call, EntryPoint, Gradient, Reply, Unsupported
from ...mesh import Mesh, find_placement, get_mesh, list_gradients
from ...processes import find_team
from ...watched_team import WatchedTeam
from .installed_torch import HAS_MESH, SENT_DTYPES
from .parameters import NORM_TYPES, Clip, ParametersAdapter

#: The module of the processes. Only they import it, because older torch lacks modules that it needs.
RANKS = "gradclip_adapters.frameworks.torch_based.mesh_engines"

#: The names of the engines.
DTENSOR = "DTensor, two axes"
HYBRID = "HSDP"
TENSOR_PARALLEL = "FSDP2, tensor parallel"
EXPERTS = "ep_enabled"

#: The mesh of each engine. Older torch has no such meshes.
MESHES: Mapping[str, Mapping[str, int]] = {
    DTENSOR: {"shard": 2, "tensor": 2},
    HYBRID: {"replica": 2, "shard": 2},
    TENSOR_PARALLEL: {"shard": 2, "tensor": 2},
}
#: The engine of torchtitan's option for models with experts.
EXPERT_MESHES: Mapping[str, Mapping[str, int]] = {EXPERTS: {"shard": 2, "expert": 2}}


def list_on_meshes(
    name: str,
    clip: Clip,
    features: Sequence[str],
    dtypes: Sequence[str],
    meshes: Mapping[str, Mapping[str, int]] = MESHES,
) -> list[EntryPoint]:
    """Return an entry point for each engine. The processes of the engine import the clip by its name."""
    if not HAS_MESH:
        return []
    sent = tuple(dtype for dtype in dtypes if dtype in SENT_DTYPES)
    every = ("distributed", "in_place", "none_grads", "returns_norm", *features)
    return [
        EntryPoint(
            f"{name}[{engine}]",
            "clip_by_global_norm",
            sent,
            # FSDP2 reduces the gradients in the backward pass.
            (*every, "partial") if engine == DTENSOR else every,
            NORM_TYPES,
            mesh=mesh,
            clip=clip,
        )
        for engine, mesh in meshes.items()
    ]


class EnginesAdapter(ParametersAdapter):
    """Adapter for functions that clip in one process, and on meshes."""

    def call(self, call: Call) -> Reply:
        """Return the answer of the entry point that the call names. Processes answer for one with a mesh."""
        entry = self.entry_points[call.subject]
        if entry.mesh is None:
            return super().call(call)
        mesh = get_mesh(call)
        _refuse_parts(call, mesh)
        name = f"{entry.clip.__module__}:{entry.clip.__qualname__}"
        return find_team(RANKS, mesh.size, WatchedTeam, mesh=mesh.axes, clip=name).call(call)


def _refuse_parts(call: Call, mesh: Mesh) -> None:
    """Refuse gradients that the engine does not have."""
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


def has_equal_experts(call: Call) -> bool:
    """Return whether each rank along the axis `expert` owns as many parameters, of the same shapes."""
    shapes = [
        [
            gradient.array and gradient.array.shape
            for gradient in (call.gradients[place] for place in list_gradients(call, rank))
            if is_owned(gradient, "expert")
        ]
        for rank in range(get_mesh(call).axes["expert"])
    ]
    return all(one == shapes[0] for one in shapes)


def is_owned(gradient: Gradient, axis: str) -> bool:
    """Return whether only some ranks along an axis of the mesh have a parameter."""
    return str(find_placement(gradient, axis)).startswith(("owned", "only"))
