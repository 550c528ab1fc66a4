"""The primitives of JAX arrays."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import array_api_compat

from gradclip_spec._primitives import Primitives

__all__ = ["primitives"]

Array = Any


def primitives(standard: Primitives) -> Primitives:
    """The primitives of JAX, where they differ from those on the array API alone."""
    import jax

    def sum_of_squares_lazy(arrays: Sequence[Array]) -> Array:
        return standard.sum_of_squares_lazy([without_ones(x) for x in arrays])

    def without_ones(x: Array) -> Array:
        # Dimensions of one element make XLA sum in float64 several times as slowly. It sees through a plain reshape.
        return jax.lax.optimization_barrier(jax.numpy.squeeze(x)) if 1 in x.shape else x

    def multiply(arrays: Sequence[Array], k: Any, wide: Any, inplace: bool) -> list[Array]:
        if all(x.dtype == wide for x in arrays):
            return [x * k for x in arrays]
        # Twice as fast in float32, to whose normal numbers a smaller coefficient is raised, by powers of two.
        # Twice as fast in float32, where a coefficient below the smallest normal number takes a second step, and one
        # below 2**-252 would take a third: for that, all others would take a third longer to compile.
        jnp, smallest = jax.numpy, 2.0**-126
        second = jnp.where(abs(k) < smallest, smallest, 1.0)
        first, second = (k / second).astype(jnp.float32), second.astype(jnp.float32)
        return [(x.astype(jnp.float32) * first * second).astype(x.dtype) for x in arrays]

    def device(x: Array) -> Any:
        # That of an array on several devices is its sharding, which a single number cannot have.
        place = array_api_compat.device(x)
        return place if isinstance(place, jax.Device) else None

    def place(x: Array) -> Any:
        return jax.typeof(x).sharding if isinstance(x, jax.core.Tracer) else x.sharding

    # What is compiled may be differentiated outside of the context, where the rule of JAX's own power has no float64.
    power = jax.custom_jvp(jax.numpy.pow)

    def derivative(operands: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
        (x, y), (dx, _) = operands, tangents
        result = power(x, y)
        return result, y * result / x * dx

    power.defjvp(derivative)

    # Without it there is no float64; it changes the dtypes of what is computed inside only.
    enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    return replace(
        standard,
        sum_of_squares_lazy=sum_of_squares_lazy,
        multiply=multiply,
        device=device,
        place=place,
        context=lambda: enable_x64(True),
        power=power,
    )
