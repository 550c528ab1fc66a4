"""Choose the device of JAX, place arrays on several devices, and compare what the devices hold."""

from __future__ import annotations

from typing import Any, Sequence

import jax
import numpy as np

from ..contract import Array, Gradient, MissingDevice, Unsupported
from ..copies import compare_copies
from ..mesh import find_sharded_axis

__all__ = ["Placement", "choose_device", "compare_devices"]


def choose_device(name: str) -> str:
    """Make all later arrays on a device, unless they have a place. Return its name, with the name of the card.

    Raises
    ------
    MissingDevice
        If JAX does not find the device.
    """
    try:
        device = jax.devices(name)[0]
    except RuntimeError as error:
        message = f"JAX {jax.__version__} finds no device {name!r} on this machine."
        raise MissingDevice(message) from error
    if device != jax.devices()[0]:
        jax.config.update("jax_default_device", device)
    return name if name == "cpu" else f"{name} ({device.device_kind})"


class Placement:
    """Several devices, and the arrays that they share."""

    def __init__(self, world: int) -> None:
        """Take the first devices."""
        self._mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:world]), ("devices",))

    def make_array(self, gradient: Gradient) -> jax.Array:
        """Return an array that is split along an axis, or of which each device has a copy.

        Raises
        ------
        Unsupported
            If the parts would not be equal.
        """
        assert gradient.array is not None
        axis, shape = find_sharded_axis(gradient), gradient.array.shape
        if axis is not None and shape[axis] % self._mesh.size:
            message = "JAX splits an array into equal parts only"
            raise Unsupported(message, "interface")
        spec = [] if axis is None else [None] * axis + ["devices"]
        placement = jax.sharding.NamedSharding(self._mesh, jax.sharding.PartitionSpec(*spec))
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
