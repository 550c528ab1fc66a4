"""Define the backend of JAX arrays, traced or not. It reads no values."""

import contextlib
import math
from collections.abc import Hashable, Sequence
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

from gradclip_spec._formats import FORMATS
from gradclip_spec.backends.base import Backend, Coefficient, group_by

Array = Any


class JAX(Backend):
    """The backend of JAX arrays on one or several devices."""

    keeps_at_one = FORMATS.keys() - {"float64"}
    eager = False

    def find_device(self, x: Array) -> Any:
        """Return None: numbers without a device combine with arrays on any device or on several."""
        return None

    def supports_float64(self) -> bool:
        """Return True, because the context of every computation has float64."""
        return True

    def context(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context that has float64. It affects only computations inside it."""
        return _enable_float64()

    def find_place(self, x: Array) -> Hashable:
        """Return the shape and the sharding. Only arrays with equal shards are joined, so no element moves."""
        return x.shape, jax.typeof(x).sharding if isinstance(x, jax.core.Tracer) else x.sharding

    def join_alike(self, arrays: Sequence[Array]) -> Array:
        """Return arrays of one shape as one array with an additional dimension, which is not sharded."""
        return self.xp.stack(arrays)

    def group(self, arrays: Sequence[Array]) -> list[list[int]]:
        """Group the indices of the arrays by the axes of a `shard_map` along which an array differs between devices."""
        return group_by(arrays, map(_find_axes, arrays))

    def multiply(self, arrays: Sequence[Array], coefficient: Coefficient, inplace: bool) -> list[Array]:
        name = self.dtypes[arrays[0].dtype]
        if name == "float64":
            return super().multiply(arrays, coefficient, inplace)
        (factor,) = self.list_factors(coefficient, name)
        products: list[Array] = _compute_products(list(arrays), factor)
        return products

    def add_squares(self, arrays: Sequence[Array]) -> Array:
        """Return the sum of the squares of all elements, with the bound of the base class."""
        # Dimensions of length one make XLA's sums in float64 several times slower. XLA would remove a `squeeze` without
        # the barrier.
        flat = (lax.optimization_barrier(jnp.squeeze(x)) if 1 in x.shape else x for x in arrays)
        sums = [jnp.sum(lax.square(lax.convert_element_type(x, jnp.float64))) for x in flat]
        # Without the barrier, XLA compiles the stacking into each step of the sum.
        return sums[0] if len(sums) == 1 else jnp.sum(lax.optimization_barrier(jnp.stack(sums)))

    def find_largest(self, x: Array) -> Array:
        """Return the largest magnitude of an array, or NaN if an element is NaN, which XLA's maximum overlooks."""
        return self.xp.where(self.xp.any(self.xp.isnan(x)), math.nan, self.xp.max(self.xp.abs(x)))

    def raise_to_power(self, x: Array, power: float) -> Array:
        # Compiled code may be differentiated outside of the context, where the derivative of JAX's own power has no
        # float64. This formula is less accurate by a few bits.
        if self.any_float64:
            return super().raise_to_power(x, power)
        return lax.exp(lax.mul(lax.full_like(x, power), lax.log(x)))

    def clip(self, x: Array, lower: float, upper: float, inplace: bool) -> Array:
        # A weakly typed array, such as the derivative with respect to a Python number, would become float64 in the
        # context.
        return super().clip(lax.convert_element_type(x, x.dtype), lower, upper, inplace)


def _enable_float64() -> contextlib.AbstractContextManager[Any]:
    enable = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    context: contextlib.AbstractContextManager[Any] = enable(True)
    return context


def _find_axes(x: Array) -> Hashable:
    """Return the axes of a `shard_map` along which an array differs between devices."""
    # Older versions of JAX give this attribute another name, or do not have it.
    kind = jax.typeof(x)
    axes: Hashable = getattr(kind, "manual_axis_type", getattr(kind, "vma", None))
    return axes


@jax.custom_jvp  # type: ignore[untyped-decorator, unused-ignore]
def _compute_products(arrays: list[Array], k: Any) -> list[Array]:
    # Multiply in float32, which is twice as fast as float64, by a rounded coefficient. A coefficient below the
    # smallest normal number is split into two factors. A coefficient below 2**-252 gives zeros: it would need a
    # third factor, with which the function takes a third longer to compile for every coefficient.
    # The first factor also encodes the case. It is negative or zero if there is a second factor. It is 2 if the
    # coefficient is one: then the arrays are kept, because XLA may flush subnormal numbers when it multiplies.
    # A division makes the first factor, because XLA would repeat a cheaper operation for each array.
    # `lax.select` replaces `jnp.where`, which would be compiled as a separate function each time.
    smallest = 2.0**-126
    one = lax.full_like(k, 1.0)
    number = lax.select(k == one, one + one, k)
    unit = lax.select(k < smallest, lax.full_like(k, -smallest), one)
    first = lax.convert_element_type(number / unit, jnp.float32)
    second = lax.select(first <= 0, lax.full_like(first, -smallest), lax.full_like(first, 1.0))
    keep = first > 1
    multiplied = (lax.convert_element_type(x, jnp.float32) * first * second for x in arrays)
    return [
        lax.select(keep, x, lax.convert_element_type(product, x.dtype))
        for x, product in zip(arrays, multiplied, strict=True)
    ]


@_compute_products.defjvp  # type: ignore[untyped-decorator, unused-ignore]
def _derive(primals: Any, tangents: Any) -> tuple[list[Array], list[Array]]:
    (arrays, k), (changes, change_of_k) = primals, tangents
    # Compute the derivative with respect to the coefficient in float64. Its range holds the product of a large
    # element and the coefficient's tangent. It also holds the sum of such products, which reverse mode computes.
    with _enable_float64():
        kept = [jnp.where(k == 1, 0.0, lax.convert_element_type(x, jnp.float64)) for x in arrays]
        of_k = [lax.convert_element_type(y * change_of_k, x.dtype) for x, y in zip(arrays, kept, strict=True)]
        changed = _compute_products(changes, k)
        return _compute_products(arrays, k), [x + y for x, y in zip(changed, of_k, strict=True)]
