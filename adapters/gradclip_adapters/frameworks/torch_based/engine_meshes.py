"""List the entry points of a clip of torch parameters on engines with meshes of two axes (see `mesh_engines`)."""

from __future__ import annotations

from typing import Mapping, Sequence

from ...contract import EntryPoint
from .installed_torch import HAS_MESH, SENT_DTYPES
from .parameters import NORM_TYPES, Clip

__all__ = ["DTENSOR", "EXPERTS", "EXPERT_MESHES", "HYBRID", "MESHES", "TENSOR_PARALLEL", "list_on_meshes"]

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
