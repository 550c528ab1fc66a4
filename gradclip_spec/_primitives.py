"""What only a library itself can say, or does much faster.

Elsewhere libraries are told apart only where arrays lie in blocks: Dask's in `_dask`, DTensors in `_dtensors`. Every
primitive has a form on the array API alone (:func:`_standard`), which is what a library that is not named here
gets. No library is imported unless its arrays have been passed in.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import array_api_compat
import numpy as np

from gradclip_spec import _dtensors, _numpy, _torch_tensors

__all__ = ["Primitives", "of"]

Array = Any


#: Elements that are converted at a time where a copy of all would be needed.
_PIECE = 1 << 18


@dataclass(frozen=True, eq=False)
class Primitives:
    """The primitives of one library."""

    #: The sum of the squares of all elements, for arrays of narrower dtypes than float64: traced, or on the device.
    sum_of_squares: Callable[[Sequence[Array]], Array]
    #: The same as a number, where values may be looked at: no farther off than a small part of float32's rounding.
    sum_of_squares_now: Callable[[Sequence[Array]], float]
    #: `multiply(arrays, k, wide, inplace)`: each `x * k` computed in the dtype `wide` and rounded once to that of `x`.
    multiply: Callable[[Sequence[Array], Any, Any, bool], list[Array]]
    #: `clip(x, lower, upper, inplace)`, the bounds exactly representable in the dtype of `x`.
    clip: Callable[[Array, float, float, bool], Array]
    #: Whether the values of all arrays may be looked at without computing, tracing or synchronising anything.
    eager: Callable[[Sequence[Array]], bool] = lambda arrays: not array_api_compat.is_lazy_array(arrays[0])
    #: Where the few numbers that decide a clip are made; None leaves it to the library.
    device: Callable[[Array], Any] = array_api_compat.device
    #: How an array lies on several devices, as far as that is known while it is traced.
    place: Callable[[Array], Any] = lambda x: None
    #: Whether each array can be written into.
    writeable: Callable[[Sequence[Array]], list[bool]] = lambda arrays: list(
        map(array_api_compat.is_writeable_array, arrays)
    )
    #: What there is among the arrays that is not an array of numbers each in its own place, and what to do with it.
    strange: Callable[[Sequence[Array]], str] = lambda arrays: ""
    #: Entered around every computation: overflow and NaN are results here, and nothing to warn of.
    context: Callable[[], contextlib.AbstractContextManager[Any]] = lambda: np.errstate(all="ignore")
    #: `power(x, y)`: x, above zero, to the power of y; None leaves it to the library.
    power: Callable[[Array, Array], Array] | None = None
    #: Whether multiplying by one leaves every element as it is; compilers that flush subnormal numbers do not.
    one_is_neutral: bool = False
    #: `sums_of_each(arrays)`: the sums of the squares of each array, where values may be looked at; None if one by one.
    sums_of_each: Callable[[Sequence[Array]], list[float]] | None = None
    #: Whether arrays are lazy and in chunks: what to do with them is in `_dask`.
    chunked: bool = False
    #: For arrays in shards, `blockwise(arrays, summary)`: the four numbers that `summary(blocks)` returns, row by row.
    blockwise: Callable[[Sequence[Array], Callable[[Sequence[Array]], Sequence[Any]]], Array] | None = None


@lru_cache
def of(xp: Any, sharded: bool = False) -> Primitives:
    """The primitives of a namespace, or those of DTensors."""
    if sharded:
        return _dtensors.on_shards(of(xp))  # type: ignore[no-any-return]
    if array_api_compat.is_numpy_namespace(xp):
        return Primitives(
            sum_of_squares=_numpy.sum_of_squares,
            sum_of_squares_now=_numpy.sum_of_squares,
            multiply=_numpy.multiply,
            clip=_numpy.clip,
            eager=lambda arrays: True,
            writeable=_numpy.writeable,
            strange=_numpy.strange,
            sums_of_each=lambda arrays: _numpy.sums_of_each(arrays, [array.size for array in arrays]),
        )
    if array_api_compat.is_torch_namespace(xp):
        return _torch(_standard(xp))
    if array_api_compat.is_jax_namespace(xp):
        return _jax(_standard(xp))
    if array_api_compat.is_dask_namespace(xp):
        return replace(
            _standard(xp),
            chunked=True,
            # Its own, which needs to know no shape.
            clip=lambda x, lower, upper, inplace: x.clip(lower, upper),
            writeable=lambda arrays: [False] * len(arrays),
        )
    if array_api_compat.is_cupy_namespace(xp):
        return replace(_standard(xp), eager=lambda arrays: False, one_is_neutral=True)
    return _standard(xp)


def _standard(xp: Any) -> Primitives:
    def sum_of_squares(arrays: Sequence[Array]) -> Array:
        wide = (xp.astype(x, xp.float64) for x in arrays)
        return xp.sum(xp.stack([xp.sum(x * x) for x in wide]))

    def sum_of_squares_now(arrays: Sequence[Array]) -> float:
        # As floats, because some libraries cannot stack what they can sum.
        wide = (xp.astype(x, xp.float64) for x in arrays)
        return math.fsum(float(xp.sum(x * x)) for x in wide)

    def multiply(arrays: Sequence[Array], k: Any, wide: Any, inplace: bool) -> list[Array]:
        products = (x * k if x.dtype == wide else xp.astype(xp.astype(x, wide) * k, x.dtype) for x in arrays)
        return [_write(x, y) for x, y in zip(arrays, products, strict=True)] if inplace else list(products)

    def clip(x: Array, lower: float, upper: float, inplace: bool) -> Array:
        clipped = xp.clip(x, lower, upper)
        return _write(x, clipped) if inplace else clipped

    return Primitives(sum_of_squares, sum_of_squares_now, multiply, clip)


def _write(x: Array, values: Array) -> Array:
    x[...] = values
    return x


def _torch(standard: Primitives) -> Primitives:
    import torch
    from torch.autograd import forward_ad

    transformation = torch._C._functorch.peek_interpreter_stack

    def eager(arrays: Sequence[Array]) -> bool:
        if torch.compiler.is_compiling() or transformation() is not None or forward_ad._current_level >= 0:
            return False
        if torch._C._len_torch_dispatch_stack() or torch._C._is_tracing():
            # Someone records what is done, to do it again with other values.
            return False
        plain = {type(x) for x in arrays} <= {torch.Tensor, torch.nn.Parameter}
        return plain and all(x.is_cpu and not x.requires_grad for x in arrays)

    def sum_of_squares(arrays: Sequence[Array]) -> Array:
        if any(x.requires_grad for x in arrays):
            # The second derivative of a norm is NaN at zero.
            return standard.sum_of_squares(arrays)
        # The square of the norm, because this one call neither copies the array to float64 nor overflows.
        norms = [torch.linalg.vector_norm(x, dtype=torch.float64) for x in arrays]
        return torch.stack(norms).square().sum()

    def multiply(arrays: Sequence[Array], k: Any, wide: Any, inplace: bool) -> list[Array]:
        dtype = arrays[0].dtype
        if isinstance(k, float) and wide in (dtype, torch.float32):
            # Either way torch computes float16 and bfloat16 in float32 and rounds once. A tensor is several times as
            # fast, but makes a new array without dimensions one of its own dtype.
            factor = torch.tensor(k, dtype=wide, device="cpu") if inplace or dtype == wide else k
            if not inplace:
                return list(torch._foreach_mul(arrays, factor))
            # Backwards, because what was read last is still in the cache.
            torch._foreach_mul_([part for x in arrays for part in _torch_tensors.parts(x)][::-1], factor)
            return list(arrays)
        if isinstance(k, float) and dtype == torch.float32:
            # In float64, which NumPy does without a copy of the whole.
            results = list(arrays) if inplace else [x.resolve_neg().clone() for x in arrays]
            _numpy.multiply([x.numpy() for x in results], k, np.float64, inplace=True)
            torch.autograd.graph.increment_version(results)
            return results
        if inplace and isinstance(k, float):
            for x in arrays:
                for part in x.view(-1).split(_PIECE) if x.is_contiguous() else [x]:
                    part.copy_(part.to(wide) * k)
            return list(arrays)
        if inplace:
            # With a dimension, the coefficient decides the dtype of the computation, and no copy of `x` is made.
            return [x.mul_(k.reshape((1,) * x.ndim)) for x in arrays]
        return standard.multiply(arrays, k, wide, inplace)

    def clip(x: Array, lower: float, upper: float, inplace: bool) -> Array:
        return x.clamp_(lower, upper) if inplace else x.clamp(lower, upper)

    def context() -> contextlib.AbstractContextManager[Any]:
        # What runs in NumPy runs there only where values may be looked at, and the compiler knows no errstate.
        return contextlib.nullcontext() if torch.compiler.is_compiling() else uncast()

    @contextlib.contextmanager
    def uncast() -> Iterator[None]:
        # On the CPU, autocast refuses to join float16.
        with np.errstate(all="ignore"), torch._C._DisableAutocast():
            yield

    return Primitives(
        sum_of_squares,
        _torch_tensors.sum_of_squares,
        multiply,
        clip,
        eager=eager,
        writeable=_torch_tensors.writeable,
        strange=_torch_tensors.strange,
        context=context,
        one_is_neutral=True,
        sums_of_each=_torch_tensors.sums_of_each,
    )


def _jax(standard: Primitives) -> Primitives:
    import jax

    def sum_of_squares(arrays: Sequence[Array]) -> Array:
        return standard.sum_of_squares([without_ones(x) for x in arrays])

    def without_ones(x: Array) -> Array:
        # Dimensions of one element make XLA sum in float64 several times as slowly. It sees through a plain reshape.
        return jax.lax.optimization_barrier(jax.numpy.squeeze(x)) if 1 in x.shape else x

    def multiply(arrays: Sequence[Array], k: Any, wide: Any, inplace: bool) -> list[Array]:
        if all(x.dtype == wide for x in arrays):
            return [x * k for x in arrays]
        # Twice as fast in float32, where a coefficient below the smallest normal number takes a second step.
        jnp, smallest = jax.numpy, 2.0**-126
        small = abs(k) < smallest
        first = (k * jnp.where(small, 1 / smallest, 1.0)).astype(jnp.float32)
        second = jnp.where(small, jnp.float32(smallest), jnp.float32(1.0))
        return [(x.astype(jnp.float32) * first * second).astype(x.dtype) for x in arrays]

    def device(x: Array) -> Any:
        # That of an array on several devices is its sharding, which a single number cannot have.
        place = array_api_compat.device(x)
        return place if isinstance(place, jax.Device) else None

    def place(x: Array) -> Any:
        return jax.typeof(x).sharding if isinstance(x, jax.core.Tracer) else x.sharding

    # What is compiled is derived later, outside of the context, where the rule of JAX's own power has no float64.
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
        sum_of_squares=sum_of_squares,
        multiply=multiply,
        device=device,
        place=place,
        context=lambda: enable_x64(True),
        power=power,
    )
