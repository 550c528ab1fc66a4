"""Define the backends of torch tensors on several devices. Each device reads its own part and sends only four numbers.

`Shards` is for DTensors, which have a shard in each process; `Devices` is for plain tensors on several devices.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gradclip_spec._norms import PowerSum
from gradclip_spec.backends.base import Backend, Bounds, Coefficient, OneByOne, group_by

Array = Any


def has_dtensors(arrays: Sequence[Array]) -> bool:
    """Return whether some of the arrays are DTensors. Refuse those on a mesh that does not include this process."""
    dtensors = [array for array in arrays if is_dtensor(array)]
    if any(mesh.get_coordinate() is None for mesh in {array.device_mesh for array in dtensors}):
        message = "gradients must be on meshes that this process is part of, got a DTensor on another; leave it out"
        raise TypeError(message)
    return bool(dtensors)


def is_dtensor(array: Array) -> bool:
    """Return whether an array is a DTensor."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(array, module.DTensor)


def take_shard(array: Array) -> Array:
    """Return the shard of a DTensor on this process. A plain tensor is the same on all processes."""
    return array.to_local() if is_dtensor(array) else array


def _is_partial(array: Array) -> bool:
    return is_dtensor(array) and any(placement.is_partial() for placement in array.placements)


def _add_up(array: Array) -> Array:
    """Return a DTensor with the sums of its addends on all processes that have one."""
    kinds = torch.distributed.tensor
    summed = [kinds.Replicate() if placement.is_partial() else placement for placement in array.placements]
    return array.redistribute(array.device_mesh, summed)


class _Blocks(OneByOne):
    """A backend of tensors in blocks. `local` is the torch backend that works on one block, or on all of them.

    `local` provides all methods that are not defined here. All processes end with the same numbers, so they make the
    same decision.
    """

    def __init__(self, xp: Any, arrays: Sequence[Array], local: Any) -> None:
        self.xp, self.local = xp, local
        #: The device on which the numbers of all blocks are combined.
        self.device = arrays[0].device

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the backend of one block."""
        return getattr(self.local, name)

    #: The local backend may have a faster method, which does not take DTensors.
    clip_all = Backend.clip_all

    def measure_norm(self, arrays: Sequence[Array], norm_type: float) -> Any:
        return self.local.join(self.gather(arrays, norm_type), norm_type)


class Shards(_Blocks):
    """The backend of DTensors, alone or beside plain tensors, which are the same on all processes.

    Element-wise operations work on the shards. A DTensor with the placement `Partial` is a sum that is still spread
    over the processes: it is added up for its norm, and each of its addends is scaled.
    """

    slices_are_views = False

    def find_problem(self, arrays: Sequence[Array], inplace: bool) -> tuple[int, str] | None:
        """Return a DTensor or a shard that cannot be clipped."""
        with torch.no_grad():
            problem: tuple[int, str] | None = self.local.find_problem(list(map(take_shard, arrays)), inplace)
        # The strides of a DTensor are those given to it, not those of its shard.
        return problem or self.local.find_problem(arrays, inplace)

    def gather(self, arrays: Sequence[Array], norm_type: float) -> Array:
        """Return the numbers of the shards on every process, with one row for each process and sharding."""
        kinds = torch.distributed.tensor
        groups: dict[Any, list[Array]] = {}
        plain = [array for array in arrays if not is_dtensor(array)]
        for array in (_add_up(array) if _is_partial(array) else array for array in arrays if is_dtensor(array)):
            # Count an array once along a mesh dimension on which it is replicated.
            split = tuple(not placement.is_replicate() for placement in array.placements)
            groups.setdefault((array.device_mesh, split), []).append(array.to_local())
        rows = []
        if plain:
            # Each process has the same numbers of plain tensors.
            rows.append(torch.stack(_convert_to_tensors(self.local.summarize(plain, norm_type), self.device))[None])
        for (mesh, split), shards in groups.items():
            numbers = _convert_to_tensors(self.local.summarize(shards, norm_type), shards[0].device)
            # All processes must take part in the backward pass, also those whose shards are empty.
            numbers[0] = sum((shard.sum() for shard in shards if shard.requires_grad and not shard.numel()), numbers[0])
            local = torch.stack(numbers).reshape((1,) * mesh.ndim + (4,))
            placements = [kinds.Shard(axis) if apart else kinds.Replicate() for axis, apart in enumerate(split)]
            everyone = kinds.DTensor.from_local(local, mesh, placements, run_check=False).full_tensor()
            # Send numbers between the devices of the mesh, even if shards are kept on the CPU.
            rows.append(everyone.reshape(-1, 4).to(self.device))
        return torch.cat(rows)

    def scale(self, arrays: Sequence[Array], coefficient: Any, inplace: bool) -> list[Array]:
        shards = list(map(take_shard, arrays))
        if self.eager:
            products = self.local.scale(shards, coefficient, inplace)
        else:
            products = []
            for x, shard in zip(arrays, shards, strict=True):
                factors = [_put_on_shard(x, factor) for factor in coefficient.factors]
                products += self.local.scale([shard], Coefficient(factors, coefficient.unchanged), inplace)
        triples = zip(arrays, shards, products, strict=True)
        return [
            (x if inplace or product is shard else _wrap(x, product)) if is_dtensor(x) else product
            for x, shard, product in triples
        ]

    def join_units(self, x: Array, units: Sequence[Array], axis: int, inplace: bool) -> Array:
        """Return units as one DTensor with the placements of `x`, or write them into `x`."""
        joined = torch.stack(list(units), dim=axis).redistribute(x.device_mesh, x.placements)
        if not inplace:
            return joined
        x.to_local().copy_(joined.to_local())
        return x

    def clip_all(self, arrays: Sequence[Array], bounds: Mapping[str, Bounds], inplace: bool) -> list[Array]:
        """Clip each array, but refuse sums that are still spread over the processes: bounds do not apply to addends."""
        for array in arrays:
            if _is_partial(array):
                got = f"got a DTensor with the placements {array.placements}; call `redistribute` on it first"
                message = f"gradients must have been summed over the processes, {got}"
                raise TypeError(message)
        return Backend.clip_all(self, arrays, bounds, inplace)  # type: ignore[arg-type]

    def clip(self, x: Array, lower: float, upper: float, inplace: bool) -> Array:
        if not is_dtensor(x):
            clipped: Array = self.local.clip(x, lower, upper, inplace)
            return clipped
        shard = x.to_local()
        clipped = self.local.clip(shard, lower, upper, inplace) if shard.numel() else shard
        return x if inplace else _wrap(x, clipped)


class Devices(_Blocks):
    """The backend of plain tensors on several devices. It reads no values. Common numbers are on the first device."""

    def gather(self, arrays: Sequence[Array], norm_type: float) -> Array:
        """Return the numbers of each device, moved to the first device."""
        rows = []
        for indices in group_by(arrays, (x.device for x in arrays)):
            alike = [arrays[index] for index in indices]
            local = type(self.local)(self.xp, alike)
            local.any_float64, local.total_dtype = self.any_float64, self.total_dtype
            rows.append(torch.stack(_convert_to_tensors(local.summarize(alike, norm_type), alike[0].device)))
        return torch.stack([row.to(self.device) for row in rows])

    def scale(self, arrays: Sequence[Array], coefficient: Any, inplace: bool) -> list[Array]:
        """Return each tensor multiplied by one coefficient, which is sent to each device once."""
        devices = {x.device for x in arrays}
        factors = {device: [factor.to(device) for factor in coefficient.factors] for device in devices}
        pairs = ((x, Coefficient(factors[x.device], coefficient.unchanged)) for x in arrays)
        return [self.local.scale([x], each, inplace)[0] for x, each in pairs]


def _convert_to_tensors(powers: PowerSum, device: Any) -> list[Any]:
    return [torch.as_tensor(number, dtype=torch.float64, device=device) for number in powers]


def _wrap(x: Array, shard: Array) -> Array:
    """Return a DTensor like `x`, but with another shard."""
    place = {"device_mesh": x.device_mesh, "placements": x.placements, "run_check": False}
    # Use the device of the shard, which may differ from that of the mesh: FSDP2 may keep shards on the CPU.
    whole = torch.distributed.tensor.DTensor.from_local(shard, **place, shape=x.shape, stride=x.stride())
    # A conversion would add up a sum that is spread over the processes.
    return _make_differentiable(whole if whole.device == shard.device else whole.to(shard.device))


def _make_differentiable(x: Array) -> Array:
    # The derivative of `from_local` includes a step that cannot be differentiated again: it converts the gradient to
    # the placements of the result. `redistribute` changes nothing here, but its derivative makes the same conversion in
    # a step that can be differentiated.
    return x.redistribute(x.device_mesh, x.placements) if x.requires_grad else x


def _put_on_shard(x: Array, k: Array) -> Array:
    """Return a number whose derivative is summed over the shards that it is multiplied with."""
    if not k.requires_grad or not is_dtensor(x):
        return k
    kinds = torch.distributed.tensor
    everywhere = kinds.DTensor.from_local(k, x.device_mesh, [kinds.Replicate()] * x.device_mesh.ndim, run_check=False)
    parts = [placement if placement.is_replicate() else kinds.Partial() for placement in x.placements]
    return _make_differentiable(everywhere).to_local(grad_placements=parts)
