"""The one place where libraries are told apart: what only the library itself can say, or does much faster.

Everything has a form on the array API alone, `_Standard`, which is what a library that is not named here gets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np

__all__ = ["Primitives", "of"]

Array = Any


@dataclass(frozen=True)
class Primitives:
    """The primitives of one library."""

    #: Whether the values of an array may be looked at without computing, tracing or synchronising anything.
    eager: Callable[[Array], bool]
    #: The sum of the squares in float64 of an array of a narrower dtype.
    sum_of_squares: Callable[[Array], Any]
    #: `multiply(x, k, wide, inplace)`: `x * k` computed in the dtype `wide` and rounded once to that of `x`.
    multiply: Callable[[Array, Any, Any, bool], Array]
    #: `clip(x, lower, upper, inplace)`, the bounds exactly representable in the dtype of `x`.
    clip: Callable[[Array, float, float, bool], Array]
    #: Whether an array can be written into.
    writeable: Callable[[Array], bool] = array_api_compat.is_writeable_array


def of(xp: Any) -> Primitives:
    """The primitives of a namespace."""
    if array_api_compat.is_numpy_namespace(xp):
        return _NUMPY
    return _standard(xp)


def _standard(xp: Any) -> Primitives:
    def sum_of_squares(x: Array) -> Array:
        x = xp.astype(x, xp.float64)
        return xp.sum(x * x)

    def multiply(x: Array, k: Any, wide: Any, inplace: bool) -> Array:
        if x.dtype == wide:
            product = x * k
        else:
            product = xp.astype(xp.astype(x, wide) * k, x.dtype)
        return _write(x, product) if inplace else product

    def clip(x: Array, lower: float, upper: float, inplace: bool) -> Array:
        clipped = xp.clip(x, lower, upper)
        return _write(x, clipped) if inplace else clipped

    return Primitives(
        eager=lambda x: not array_api_compat.is_lazy_array(x),
        sum_of_squares=sum_of_squares,
        multiply=multiply,
        clip=clip,
    )


def _write(x: Array, values: Array) -> Array:
    x[...] = values
    return x


#: Elements that are converted to float64 at a time: the buffer stays in the cache of one core.
_CHUNK = 16384


def _numpy_sum_of_squares(x: np.ndarray[Any, Any]) -> float:
    flat = x.reshape(-1)
    buffer = np.empty(min(flat.size, _CHUNK))
    total = 0.0
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK]
        wide = buffer[: part.size]
        wide[...] = part
        total += float(np.dot(wide, wide))
    return total


def _numpy_multiply(x: np.ndarray[Any, Any], k: Any, wide: Any, inplace: bool) -> Array:
    # Casting is unsafe in name only: the dtypes of ml_dtypes register no other cast back from float32.
    return np.multiply(x, wide(k), out=x if inplace else np.empty_like(x), dtype=wide, casting="unsafe")


def _numpy_clip(x: np.ndarray[Any, Any], lower: float, upper: float, inplace: bool) -> Array:
    return np.clip(x, x.dtype.type(lower), x.dtype.type(upper), out=x if inplace else np.empty_like(x))


_NUMPY = Primitives(
    eager=lambda x: True,
    sum_of_squares=_numpy_sum_of_squares,
    multiply=_numpy_multiply,
    clip=_numpy_clip,
    writeable=lambda x: isinstance(x, np.ndarray) and x.flags.writeable,
)
