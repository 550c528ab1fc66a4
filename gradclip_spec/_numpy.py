"""The primitives of NumPy arrays, written for the cache of one core.

Also used for torch tensors on the CPU, whose memory NumPy can read as it stands.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["clip", "multiply", "sum_of_squares", "writeable"]

Array = np.ndarray[Any, Any]

#: Elements that are converted to float64 at a time: the buffer stays in the first two caches.
_CHUNK = 8192
#: From this many float32 elements on, the sum is tried in float32 first, by rows of so many elements.
_LARGE = 1 << 16
_ROW = 128
#: One row in so many, but no more than so many rows, is summed again in float64 to see whether the errors lean one way.
_SAMPLED = 16
_SAMPLE = 512


def sum_of_squares(x: Array) -> float:
    """The sum of the squares of the elements, to a small part of float32's rounding error."""
    return sum(_flat_sum_of_squares(part) for part in _flat_parts(np.asarray(x)))


def multiply(x: Array, k: float, wide: Any, inplace: bool) -> Array:
    """`x * k` computed in the dtype `wide`, without a copy of `x` in it."""
    # Casting is unsafe in name only: the dtypes of ml_dtypes register no other cast back from float32.
    out = x if inplace else np.empty_like(x)
    np.multiply(x, wide(k), out=out, dtype=wide, casting="unsafe")
    return out


def clip(x: Array, lower: float, upper: float, inplace: bool) -> Array:
    """The elements within bounds that their dtype represents exactly."""
    out = x if inplace else np.empty_like(x)
    np.clip(x, x.dtype.type(lower), x.dtype.type(upper), out=out)
    return out


def writeable(x: Array) -> bool:
    """Whether the array can be written into; scalars and read-only views cannot."""
    return isinstance(x, np.ndarray) and x.flags.writeable


def _flat_parts(x: Array) -> Iterator[Array]:
    """The elements as flat arrays in any order: views where the array lies in one piece, else small copies."""
    if x.flags.c_contiguous or x.flags.f_contiguous or x.size <= _LARGE:
        yield x.ravel(order="K")
        return
    axis = int(np.argmax(x.shape))
    for part in np.array_split(x, min(x.shape[axis], -(-x.size // _LARGE)), axis=axis):
        yield part.ravel(order="K")


def _flat_sum_of_squares(flat: Array) -> float:
    if flat.size < _LARGE or flat.dtype != np.float32:
        return _exact(flat)
    whole = flat.size // _ROW * _ROW
    rows = flat[:whole].reshape(-1, _ROW)
    sums = np.vecdot(rows, rows)
    total = float(np.sum(sums, dtype=np.float64))
    return total + _exact(flat[whole:]) if _trusted(rows, sums, total) else _exact(flat)


def _trusted(rows: Array, sums: Array, total: float) -> bool:
    """Whether float32 sums of rows add up to the total as if they were exact.

    The rounding errors of some hundred thousand rows cancel, unless the rows are alike (then they all err to the
    same side), or one row outweighs the others, or squares left the range of float32.
    """
    in_range = rows.size * 2.0**-120 < total < 2.0**127
    if not in_range or float(sums.max()) * 64 > total:
        return False
    step = max(len(rows) // _SAMPLE, _SAMPLED)
    sample = rows[::step].astype(np.float64)
    exact = float(np.sum(sample * sample))
    lean = abs(float(np.sum(sums[::step], dtype=np.float64)) - exact)
    return exact * step * 4 > total and lean < exact * 2.0**-26


def _exact(flat: Array) -> float:
    """The sum in float64, which holds the square of a narrower float exactly."""
    buffer = np.empty(min(flat.size, _CHUNK))
    total = 0.0
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK]
        wide = buffer[: part.size]
        wide[...] = part
        total += float(np.dot(wide, wide))
    return total
