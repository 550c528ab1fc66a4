"""DTensors of torch: each process looks at its own shards, and only the four numbers of a `PowerSum` travel."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from gradclip_spec._primitives import Primitives

__all__ = ["are_dtensors", "on_shards"]

Array = Any


def are_dtensors(arrays: Sequence[Array]) -> bool:
    """Whether the arrays are DTensors.

    Raises
    ------
    TypeError
        If only some of them are, one is a sum whose terms have not been added up yet, or one is on a mesh that this
        process has no part in.
    """
    module = sys.modules.get("torch.distributed.tensor")
    kinds = {module is not None and issubclass(kind, module.DTensor) for kind in {type(array) for array in arrays}}
    if kinds == {True, False}:
        message = (
            "gradients must be all DTensors or all plain tensors, got both, and whether a plain one is the same on "
            "every process cannot be seen; say so, e.g. with DTensor.from_local(gradient, mesh, [Replicate()])"
        )
        raise TypeError(message)
    if True not in kinds:
        return False
    if any(mesh.get_coordinate() is None for mesh in {array.device_mesh for array in arrays}):
        message = (
            "gradients must be on meshes that this process is part of, got a DTensor on another; leave it out on this "
            "process"
        )
        raise TypeError(message)
    for array in arrays:
        if any(placement.is_partial() for placement in array.placements):
            message = (
                f"gradients must have been summed over the processes, got a DTensor with the placements "
                f"{array.placements}; call `redistribute` on it first"
            )
            raise TypeError(message)
    return True


def _rows_of_shards(arrays: Sequence[Array], summary: Callable[[Sequence[Array]], Sequence[Any]]) -> Array:
    """The numbers of the shards of DTensors, one row a process and way of sharding, on every process."""
    import torch
    from torch.distributed.tensor import DTensor, Replicate, Shard

    groups: dict[Any, list[Array]] = {}
    for array in arrays:
        # Along a dimension of the mesh on which it is replicated, an array is counted once.
        split = tuple(not placement.is_replicate() for placement in array.placements)
        groups.setdefault((array.device_mesh, split), []).append(array.to_local())
    rows = []
    for (mesh, split), shards in groups.items():
        numbers = [torch.as_tensor(n, dtype=torch.float64, device=shards[0].device) for n in summary(shards)]
        # All processes must take part in the backward pass, also those whose shards are empty.
        numbers[0] = sum((shard.sum() for shard in shards if shard.requires_grad and not shard.numel()), numbers[0])
        local = torch.stack(numbers).reshape((1,) * mesh.ndim + (4,))
        placements = [Shard(axis) if apart else Replicate() for axis, apart in enumerate(split)]
        everyone = DTensor.from_local(local, mesh, placements, run_check=False).full_tensor()
        # Numbers travel between the devices of the mesh, also where shards are kept on the CPU.
        rows.append(everyone.reshape(-1, 4).to(arrays[0].device))
    return torch.cat(rows)


@lru_cache
def on_shards(primitives: Primitives) -> Primitives:
    """The primitives of torch for DTensors: what treats each element by itself is done on the shards."""

    def wrapped(x: Array, shard: Array) -> Array:
        from torch.distributed.tensor import DTensor

        place = {"device_mesh": x.device_mesh, "placements": x.placements, "run_check": False}
        # Where the shard is, which need not be where the mesh is: FSDP2 may keep shards on the CPU.
        whole = DTensor.from_local(shard, **place, shape=x.shape, stride=x.stride()).to(shard.device)
        return differentiable_twice(whole)

    def differentiable_twice(x: Array) -> Array:
        # The derivative of `from_local` brings what arrives to the placements of its result by a step that is not
        # differentiable itself; that of `redistribute`, which changes nothing here, by one that is.
        return x.redistribute(x.device_mesh, x.placements) if x.requires_grad else x

    def coefficient_on_shard(x: Array, k: Array) -> Array:
        # The derivative of the coefficient is summed over the shards that it is multiplied with.
        from torch.distributed.tensor import DTensor, Partial, Replicate

        everywhere = DTensor.from_local(k, x.device_mesh, [Replicate()] * x.device_mesh.ndim, run_check=False)
        parts = [placement if placement.is_replicate() else Partial() for placement in x.placements]
        return differentiable_twice(everywhere).to_local(grad_placements=parts)

    def multiply(arrays: Sequence[Array], k: Any, wide: Any, inplace: bool) -> list[Array]:
        shards = [x.to_local() for x in arrays]
        if isinstance(k, float) or not k.requires_grad:
            products = primitives.multiply(shards, k, wide, inplace)
        else:
            factors = [coefficient_on_shard(x, k) for x in arrays]
            pairs = zip(shards, factors, strict=True)
            products = [primitives.multiply([shard], factor, wide, inplace)[0] for shard, factor in pairs]
        return list(arrays) if inplace else [wrapped(x, y) for x, y in zip(arrays, products, strict=True)]

    def clip(x: Array, lower: float, upper: float, inplace: bool) -> Array:
        clipped = primitives.clip(x.to_local(), lower, upper, inplace)
        return x if inplace else wrapped(x, clipped)

    def eager(arrays: Sequence[Array]) -> bool:
        # All processes have the same numbers in the end, and so decide alike.
        return primitives.eager([x.to_local() for x in arrays])

    def writeable(arrays: Sequence[Array]) -> list[bool]:
        import torch

        with torch.no_grad():
            shards = primitives.writeable([x.to_local() for x in arrays])
        # The strides of a DTensor are what it was told, not those of its shard.
        return [whole and shard for whole, shard in zip(primitives.writeable(arrays), shards, strict=True)]

    of_shards = replace(primitives, multiply=multiply, clip=clip, eager=eager, writeable=writeable)
    return replace(of_shards, rows_of_blocks=_rows_of_shards)
