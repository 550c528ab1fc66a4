"""The primitives of NumPy arrays, written for the caches of one core.

Also used for torch tensors on the CPU, whose memory NumPy can read as it stands.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

__all__ = ["clip", "multiply", "sum_of_squares", "writeable"]

Array = np.ndarray[Any, Any]

#: Elements that are converted to float64 at a time: the buffer stays in the first two caches, and is too small for
#: BLAS to start threads, which wait for each other far longer than the sum takes when the machine is busy.
_CHUNK = 8192
#: From this many float32 elements on, an array is summed in float32 first, by rows of so many elements.
_LARGE = 1 << 16
_ROW = 256
#: One row in so many, but no more than so many rows, is summed again in float64 to see whether the errors lean one way.
_SAMPLED = 16
_SAMPLE = 512
#: Bytes of a buffer that new arrays share: the system hands out many small pieces of memory far more slowly.
_SHARED = 1 << 25


def _squares_of_rows(rows: Array) -> Array:
    sums: Array = np.vecdot(rows, rows)
    return sums


def sum_of_squares(arrays: Sequence[Array], of_rows: Callable[[Array], Array] = _squares_of_rows) -> float:
    """The sum of the squares of all elements, to a small part of float32's rounding error.

    `of_rows` gives the sum of the squares of each row of a float32 matrix, in float32.
    """
    large = [array for array in arrays if array.size >= _LARGE and array.dtype == np.float32]
    small = [array for array in arrays if array.size < _LARGE or array.dtype != np.float32] if large else arrays
    parts = [part for array in large for part in _flat_parts(array)]
    total = _sum_by_rows(parts, of_rows) if parts else 0.0
    return _exact(small) + (_exact(parts) if total is None else total)


def multiply(arrays: Sequence[Array], k: float, wide: Any, inplace: bool) -> list[Array]:
    """Each array, all of one dtype, times `k`, computed in the dtype `wide` and rounded once to its own."""
    factor = wide(k)
    if not inplace:
        return _scaled_copies(arrays, factor)
    # Backwards, because what was read last is still in the cache.
    for array in reversed(arrays):
        _scale(array, factor, array)
    return list(arrays)


def clip(x: Array, lower: float, upper: float, inplace: bool) -> Array:
    """The elements within bounds that their dtype represents exactly."""
    out = x if inplace else np.empty_like(x)
    np.clip(x, x.dtype.type(lower), x.dtype.type(upper), out=out)
    return out


def writeable(x: Array) -> bool:
    """Whether the array can be written into; scalars and read-only views cannot."""
    return isinstance(x, np.ndarray) and x.flags.writeable


def _scale(source: Array, factor: Any, result: Array) -> None:
    if source.dtype == factor.dtype:
        np.multiply(source, factor, result)
    else:
        # Unsafe in name only: the dtypes of ml_dtypes register no other cast back from float32.
        np.multiply(source, factor, result, dtype=factor.dtype, casting="unsafe")


def _scaled_copies(arrays: Sequence[Array], factor: Any) -> list[Array]:
    results: list[Array] = []
    group: list[Array] = []
    size = 0
    for array in arrays:
        alone = array.nbytes >= _SHARED // 4 or not array.flags.c_contiguous
        if group and (alone or size + array.nbytes > _SHARED):
            results += _scaled_together(group, factor)
            group, size = [], 0
        if alone:
            results.append(_scaled_alone(array, factor))
        else:
            group.append(array)
            size += array.nbytes
    return results + _scaled_together(group, factor) if group else results


def _scaled_together(arrays: Sequence[Array], factor: Any) -> list[Array]:
    """New arrays that share one buffer."""
    buffer = np.concatenate(arrays, axis=None)
    _scale(buffer, factor, buffer)
    ends = list(itertools.accumulate(array.size for array in arrays))
    flat = [buffer[start:end] for start, end in itertools.pairwise([0, *ends])]
    return [part if array.ndim == 1 else part.reshape(array.shape) for part, array in zip(flat, arrays, strict=True)]


def _scaled_alone(array: Array, factor: Any) -> Array:
    result = np.empty_like(array)
    _scale(array, factor, result)
    return result


def _flat_parts(x: Array) -> Iterator[Array]:
    """The elements as flat arrays in any order: views where the array lies in one piece, else small copies."""
    if x.flags.c_contiguous or x.flags.f_contiguous or x.size <= _LARGE:
        yield x.ravel(order="K")
        return
    axis = int(np.argmax(x.shape))
    for part in np.array_split(x, min(x.shape[axis], -(-x.size // _LARGE)), axis=axis):
        yield part.ravel(order="K")


def _sum_by_rows(parts: Sequence[Array], of_rows: Callable[[Array], Array]) -> float | None:
    """The sum from float32 sums of rows, or None if these cannot be trusted to add up as if they were exact.

    The rounding errors of some hundred rows and more cancel, unless the rows are alike (then they all err to the same
    side), one row outweighs the others, or squares left the range of float32.
    """
    step = max(sum(part.size for part in parts) // (_ROW * _SAMPLE), _SAMPLED)
    rows = [part[: part.size // _ROW * _ROW].reshape(-1, _ROW) for part in parts]
    each = [of_rows(matrix) for matrix in rows]
    sums = np.concatenate(each)
    total = float(np.sum(sums, dtype=np.float64))
    in_range = sums.size * _ROW * 2.0**-120 < total < 2.0**127
    if not in_range or float(sums.max()) * 64 > total:
        return None
    exact = _exact([matrix[::step] for matrix in rows])
    lean = abs(float(np.sum(np.concatenate([some[::step] for some in each]), dtype=np.float64)) - exact)
    if exact * step * 4 < total or lean > exact * 2.0**-26:
        return None
    return total + _exact([part[part.size // _ROW * _ROW :] for part in parts])


def _exact(arrays: Sequence[Array]) -> float:
    """The sum in float64, which holds the square of a narrower float exactly."""
    buffer = np.empty(_CHUNK)
    total = 0.0
    for group in _groups(arrays):
        size = sum(array.size for array in group)
        wide = buffer[:size]
        np.concatenate(group, axis=None, out=wide, casting="unsafe")
        total += float(np.dot(wide, wide))
    return total


def _groups(arrays: Sequence[Array]) -> Iterator[list[Array]]:
    """The elements of all arrays, some chunk of them at a time."""
    group: list[Array] = []
    room = _CHUNK
    for array in arrays:
        size = array.size
        if size > _CHUNK:
            for flat in _flat_parts(array):
                yield from ([flat[start : start + _CHUNK]] for start in range(0, flat.size, _CHUNK))
            continue
        if size > room:
            yield group
            group, room = [], _CHUNK
        group.append(array)
        room -= size
    if group:
        yield group
