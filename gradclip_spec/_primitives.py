"""What only a library itself can say, or does much faster.

What differs from library to library is a field of `Primitives`; beside it, `_library` asks for torch's DTensors and
devices, and two methods of torch's tensors are called where there are any (`_double_words.unstacked`, `_engine`). A
field that is not given has a default or, from :func:`_standard`, a form on the array API alone, which is what a library
that is not named here gets. No library is imported unless its arrays have been passed in.
"""

import contextlib
import math
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import array_api_compat
import numpy as np

from gradclip_spec import _numpy
from gradclip_spec._float64_sums import Sum
from gradclip_spec._scalars import FORMATS

__all__ = ["Primitives", "of"]

Array = Any


@dataclass(frozen=True, eq=False)
class Primitives:
    """The primitives of one library."""

    # What is computed.
    #: The sum of the squares of all elements, for arrays of narrower dtypes than float64: traced, or on the device.
    sum_of_squares_lazy: Callable[[Sequence[Array]], Array]
    #: The same as a number, where values may be looked at: no farther off than a small part of float32's rounding.
    sum_of_squares_eager: Callable[[Sequence[Array]], Sum]
    #: The same of each array.
    sums_of_each: Callable[[Sequence[Array]], list[Sum]]
    #: `multiply(arrays, k, wide, inplace)`: each `x * k` as if computed in the dtype `wide` and rounded once to that of
    #: `x`, but for what a `k` rounded to float32 changes.
    multiply: Callable[[Sequence[Array], Any, Any, bool], list[Array]]
    #: `clip(x, lower, upper, inplace)`, the bounds exactly representable in the dtype of `x`.
    clip: Callable[[Array, float, float, bool], Array]
    #: The dtypes, by name, of which `multiply` by one leaves every element as it is, subnormal ones too; else the
    #: caller selects.
    keeps_at_one: Collection[str] = ()
    #: `power(x, y)`: x, above zero, to the power of y, where elements are narrower than float64; None leaves it to the
    #: library.
    power: Callable[[Array, Array], Array] | None = None
    #: Entered around every computation: overflow and NaN are results here, and nothing to warn of.
    context: Callable[[], contextlib.AbstractContextManager[Any]] = lambda: np.errstate(all="ignore")

    # What is asked.
    #: Whether the values of all arrays may be looked at without computing, tracing or synchronising anything. The
    #: default knows no accelerators: a library of theirs must say no. Of a library that it does not know,
    #: array-api-compat finds out by looking at one element.
    eager: Callable[[Sequence[Array]], bool] = lambda arrays: not array_api_compat.is_lazy_array(arrays[0])
    #: Whether each array can be written into.
    writeable: Callable[[Sequence[Array]], list[bool]] = lambda arrays: list(
        map(array_api_compat.is_writeable_array, arrays)
    )
    #: What the first array is that is no dense array of numbers, and the method that makes it one; empty if all are.
    strange: Callable[[Sequence[Array]], str] = lambda arrays: ""
    #: Where the few numbers that decide a clip are made; None leaves it to the library.
    device: Callable[[Array], Any] = array_api_compat.device
    #: How an array lies on several devices, as far as that is known while it is traced. None: it lies on one.
    place: Callable[[Array], Any] | None = None
    #: Along what an array differs from device to device while each device computes for itself. What is made of several
    #: arrays differs along all of theirs.
    axes: Callable[[Array], Hashable] = lambda x: None
    #: Whether a part of an array takes less time to read than the whole.
    divisible: bool = True
    #: The arrays, or copies of those that derivatives need as they are, and that may be written into.
    kept_for_derivatives: Callable[[Sequence[Array]], Sequence[Array]] = lambda arrays: arrays

    # Arrays in blocks.
    #: Whether arrays are those of Dask: `_dask` makes their norms and scales them.
    chunked: bool = False
    #: For arrays in shards, or on several devices, `rows_of_blocks(arrays, summary)`: the four numbers of each
    #: `summary(blocks)`, as a row.
    rows_of_blocks: Callable[[Sequence[Array], Callable[[Sequence[Array]], Sequence[Any]]], Array] | None = None


@lru_cache
def of(xp: Any) -> Primitives:
    """The primitives of a namespace."""
    if array_api_compat.is_numpy_namespace(xp):
        return replace(
            _standard(xp),
            sum_of_squares_eager=_numpy.sum_of_squares,
            sums_of_each=lambda arrays: _numpy.sums_of_each(arrays, [array.size for array in arrays]),
            multiply=_numpy.multiply,
            clip=_numpy.clip,
            eager=lambda arrays: True,
            writeable=_numpy.writeable,
            strange=_numpy.strange,
        )
    if array_api_compat.is_torch_namespace(xp):
        from gradclip_spec import _torch

        return _torch.primitives(_standard(xp))
    if array_api_compat.is_jax_namespace(xp):
        from gradclip_spec import _jax

        return _jax.primitives(_standard(xp))
    if array_api_compat.is_dask_namespace(xp):
        return replace(
            _standard(xp),
            chunked=True,
            # Its own, which needs to know no shape. NumPy makes bfloat16 float32 there.
            clip=lambda x, lower, upper, inplace: x.clip(lower, upper).astype(x.dtype),
            writeable=lambda arrays: [False] * len(arrays),
            strange=lambda arrays: _numpy.strange([x._meta for x in arrays]),
        )
    if array_api_compat.is_pydata_sparse_namespace(xp):
        return replace(_standard(xp), divisible=False)
    if array_api_compat.is_cupy_namespace(xp):
        return replace(_standard(xp), eager=lambda arrays: False, keeps_at_one=FORMATS)
    return _standard(xp)


def _standard(xp: Any) -> Primitives:
    def sum_of_squares_lazy(arrays: Sequence[Array]) -> Array:
        wide = (xp.astype(x, xp.float64) for x in arrays)
        return xp.sum(xp.stack([xp.sum(x * x) for x in wide]))

    def sum_of_squares_eager(arrays: Sequence[Array]) -> Sum:
        # As floats, because some libraries cannot stack what they can sum.
        wide = (xp.astype(x, xp.float64) for x in arrays)
        return Sum(math.fsum(float(xp.sum(x * x)) for x in wide))

    def sums_of_each(arrays: Sequence[Array]) -> list[Sum]:
        return [sum_of_squares_eager([x]) for x in arrays]

    def multiply(arrays: Sequence[Array], k: Any, wide: Any, inplace: bool) -> list[Array]:
        products = (x * k if x.dtype == wide else xp.astype(xp.astype(x, wide) * k, x.dtype) for x in arrays)
        return [_write(x, y) for x, y in zip(arrays, products, strict=True)] if inplace else list(products)

    def clip(x: Array, lower: float, upper: float, inplace: bool) -> Array:
        if 0 in (lower, upper):
            # A zero with the other sign is within the bounds, but may come back as the bound.
            clipped = xp.where(x < lower, xp.full_like(x, lower), xp.where(x > upper, xp.full_like(x, upper), x))
        else:
            clipped = xp.clip(x, lower, upper)
        return _write(x, clipped) if inplace else clipped

    return Primitives(sum_of_squares_lazy, sum_of_squares_eager, sums_of_each, multiply, clip)


def _write(x: Array, values: Array) -> Array:
    x[...] = values
    return x
