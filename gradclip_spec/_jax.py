"""The primitives of JAX arrays."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from gradclip_spec._primitives import Primitives
from gradclip_spec._scalars import FORMATS

__all__ = ["primitives"]

Array = Any


def primitives(standard: Primitives) -> Primitives:
    """The primitives of JAX, where they differ from those on the array API alone."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    def sum_of_squares_lazy(arrays: Sequence[Array]) -> Array:
        wide = (lax.convert_element_type(without_ones(x), jnp.float64) for x in arrays)
        sums = [jnp.sum(lax.square(x)) for x in wide]
        # Without the barrier, XLA compiles the stacking several times, into each step of the sum.
        return sums[0] if len(sums) == 1 else jnp.sum(lax.optimization_barrier(jnp.stack(sums)))

    def without_ones(x: Array) -> Array:
        # Dimensions of one element make XLA sum in float64 several times as slowly. It sees through a plain reshape.
        return lax.optimization_barrier(jnp.squeeze(x)) if 1 in x.shape else x

    def multiply(arrays: Sequence[Array], k: Any, wide: Any, inplace: bool) -> list[Array]:
        return [x * k for x in arrays] if all(x.dtype == wide for x in arrays) else products(list(arrays), k)

    @jax.custom_jvp  # type: ignore[untyped-decorator, unused-ignore]
    def products(arrays: list[Array], k: Any) -> list[Array]:
        # Not in float64 but in float32, which is twice as fast, by a coefficient rounded to it. One below the smallest
        # normal number takes two factors. One below 2**-252 would take three, and all others would compile a third
        # longer for that: it makes zeros. The first factor tells whether there is a second (it is not above zero), and
        # whether there is nothing to do (it is above one; XLA may flush subnormal numbers when it multiplies). It ends
        # in a division, because XLA compiles and computes anew, for each array, what is cheaper than one.
        # (`jnp.where` would be compiled as a function of its own each time.)
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

    @products.defjvp  # type: ignore[untyped-decorator, unused-ignore]
    def derivative(primals: Any, tangents: Any) -> tuple[list[Array], list[Array]]:
        (arrays, k), (changes, change_of_k) = primals, tangents
        # What changes by the coefficient in float64: there, the product of a change of it and a large element is in the
        # range, and so is the sum of such products that is the derivative the other way round.
        with enable_x64(True):
            unchanged = k == 1
            of_k = [
                lax.convert_element_type(
                    jnp.where(unchanged, 0.0, lax.convert_element_type(x, jnp.float64)) * change_of_k, x.dtype
                )
                for x in arrays
            ]
            changed = products(changes, k)
            return products(arrays, k), [x + y for x, y in zip(changed, of_k, strict=True)]

    def clip(x: Array, lower: float, upper: float, inplace: bool) -> Array:
        # What is weakly typed, as the derivative by a number of Python is, would become float64 in the context.
        return standard.clip(lax.convert_element_type(x, x.dtype), lower, upper, inplace)

    def place(x: Array) -> Any:
        return jax.typeof(x).sharding if isinstance(x, jax.core.Tracer) else x.sharding

    def axes(x: Array) -> Hashable:
        # In `shard_map`. Older versions have another name for it, or do not tell.
        kind = jax.typeof(x)
        return getattr(kind, "manual_axis_type", getattr(kind, "vma", None))

    def power(x: Array, y: Array) -> Array:
        # What is compiled may be differentiated outside of the context, where the rule of JAX's own power has no
        # float64. This is off by some more bits of it.
        return lax.exp(lax.mul(y, lax.log(x)))

    # Without it there is no float64; it changes the dtypes of what is computed inside only.
    enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    return replace(
        standard,
        sum_of_squares_lazy=sum_of_squares_lazy,
        multiply=multiply,
        clip=clip,
        # Numbers without a device go with arrays on any, and on several.
        device=lambda x: None,
        place=place,
        axes=axes,
        context=lambda: enable_x64(True),
        power=power,
        keeps_at_one=FORMATS.keys() - {"float64"},
    )
