"""Choose the device of JAX, place arrays on several devices, and compare what the devices hold."""

from __future__ import annotations

import math
from typing import Any, Sequence

import jax
import numpy as np

from ..contract import Array, Gradient, MissingDevice, Unsupported
from ..mesh import Mesh, compare_copies, find_placement


def choose_device(name: str) -> str:
    """Make all later arrays on a device, unless they have a place. Return its name, with the name of the card."""
    try:
        device = jax.devices(name)[0]
    except RuntimeError as error:
        message = f"JAX {jax.__version__} finds no device {name!r} on this machine."
        raise MissingDevice(message) from error
    if device != jax.devices()[0]:
        jax.config.update("jax_default_device", device)
    return name if name == "cpu" else f"{name} ({device.device_kind})"


class Placement:
    """A mesh of devices, and the arrays that they share."""

    def __init__(self, mesh: Mesh) -> None:
        """Take the first devices."""
        devices = np.array(jax.devices("cpu")[: mesh.size]).reshape([*mesh.axes.values()])
        self.mesh = jax.sharding.Mesh(devices, [*mesh.axes])
        self._axes = mesh.axes

    def make_spec(self, gradient: Gradient) -> Any:
        """Return the axes of the mesh along which each axis of an array is split. Along others, devices have copies."""
        assert gradient.array is not None
        names: list[list[str]] = [[] for _ in gradient.array.shape]
        for name, size in self._axes.items():
            placement = find_placement(gradient, name)
            if placement == "replicated" or size == 1:
                continue
            if not isinstance(placement, int):
                message = "an array of JAX lies on all devices of its mesh: none is owned by some, or a sum to come"
                raise Unsupported(message, "interface")
            names[placement].append(name)
        for length, split in zip(gradient.array.shape, names):
            if length % math.prod(self._axes[name] for name in split):
                message = "JAX splits an array into equal parts only"
                raise Unsupported(message, "interface")
        return jax.sharding.PartitionSpec(*(tuple(split) or None for split in names))

    def make_array(self, gradient: Gradient) -> jax.Array:
        """Return an array that is split along axes, or of which each device has a copy."""
        assert gradient.array is not None
        placement = jax.sharding.NamedSharding(self.mesh, self.make_spec(gradient))
        return jax.device_put(gradient.array.numpy(), placement)


def compare_devices(arrays: Sequence[Any]) -> list[str]:
    """Return what differs between the devices that hold the same part of a result."""
    found = []
    for place, array in enumerate(arrays):
        parts: dict[str, list[Array | None]] = {}
        for shard in () if array is None else array.addressable_shards:
            parts.setdefault(str(shard.index), []).append(Array.of(np.asarray(shard.data)))
        for copies in parts.values():
            found += compare_copies(dict(enumerate(copies)), f"result {place}")
    return found
