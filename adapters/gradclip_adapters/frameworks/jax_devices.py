"""Place arrays of JAX on several devices, and compare what the devices hold."""

from __future__ import annotations

from typing import Any, Sequence

import jax
import numpy as np

from ..contract import Array, Gradient, Unsupported
from ..processes import compare_copies

__all__ = ["Placement", "compare_devices"]


class Placement:
    """Several devices, and the arrays that they share."""

    def __init__(self, world: int) -> None:
        """Take the first devices."""
        self._mesh = jax.sharding.Mesh(np.array(jax.devices()[:world]), ("devices",))

    def make_array(self, gradient: Gradient) -> jax.Array:
        """Return an array that is split along an axis, or of which each device has a copy.

        Raises
        ------
        Unsupported
            If the parts would not be equal.
        """
        assert gradient.array is not None
        axis, shape = gradient.sharded, gradient.array.shape
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
            found += compare_copies(copies, f"result {place}")
    return found
