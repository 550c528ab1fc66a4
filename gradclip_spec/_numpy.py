"""The primitives of NumPy arrays, written for the caches of one core.

Also used for torch tensors on the CPU, whose memory NumPy can read as it stands.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = [
    "JOINED",
    "clip",
    "exact_sum_of_squares",
    "flat_parts",
    "multiply",
    "sum_by_rows",
    "sum_of_squares",
    "writeable",
]

Array = np.ndarray[Any, Any]

#: From this many float32 elements on, squares are summed in float32 first, by rows of so many elements.
_LARGE = 1 << 17
_ROW = 256
#: Elements of small arrays that are joined: enough of them to make the work on each small, few enough for the cache.
JOINED = 1 << 16
#: Elements of one piece of a large array, which is looked at twice and so had better stay in the cache.
_PIECE = 1 << 20
#: Elements that are converted to float64 at a time: the buffer stays in the first two caches, and is too small for
#: BLAS to start threads, which wait for each other far longer than the sum takes when the machine is busy.
_CHUNK = 1 << 13
#: So many rows are summed again in float64, to see how far the errors lean one way.
_SAMPLE = 256
#: Bytes of a buffer that new arrays share.
_SHARED = 1 << 25


def sum_of_squares(arrays: Sequence[Array]) -> float:
    """The sum of the squares of all elements, to a small part of float32's rounding error."""
    by_dtype = [[array for array in arrays if array.dtype == dtype] for dtype in {array.dtype for array in arrays}]
    return sum(map(_sum_of_squares_alike, by_dtype if len(by_dtype) > 1 else [arrays]))


def _sum_of_squares_alike(arrays: Sequence[Array]) -> float:
    if arrays and arrays[0].dtype == np.float32:
        size = sum([array.size for array in arrays])
        total = sum_by_rows(_flat(arrays, np.float32, JOINED), size, _squares_of_rows)
        if total is not None:
            return total
    return exact_sum_of_squares(arrays)


def _squares_of_rows(rows: Array) -> Array:
    sums: Array = np.vecdot(rows, rows)
    return sums


def sum_by_rows(pieces: Iterable[Array], size: int, of_rows: Callable[[Array], Array]) -> float | None:
    """The sum from float32 sums of rows, or None if these cannot be trusted to add up as if they were exact.

    The rounding errors of some hundred rows and more cancel, but for what they lean one way: that of float16 and
    bfloat16 elements do a little, those of rows that are alike a lot. How far they lean is seen in some of the rows,
    and taken off. The sums are not trusted if they lean far, if one row outweighs the others, or if squares left the
    range of float32.

    `pieces` are flat float32 arrays with so many elements together, each of which may be overwritten by the next;
    `of_rows` gives the sum of the squares of each row of a float32 matrix, in float32.
    """
    if size < _LARGE:
        return None
    step = max(size // (_ROW * _SAMPLE), 1)
    sums, sampled, exact, rest, drawn = [], [], [], 0.0, 0
    for piece in pieces:
        whole = piece.size // _ROW * _ROW
        rows = piece[:whole].reshape(-1, _ROW)
        sums.append(of_rows(rows))
        some = _anywhere(drawn, -(-len(rows) // step), len(rows))
        drawn += len(some)
        sampled.append(sums[-1][some])
        wide = rows[some].astype(np.float64)
        exact.append(np.vecdot(wide, wide))
        tail = piece[whole:].astype(np.float64)
        rest += float(np.vecdot(tail, tail))
    each = np.concatenate(sums)
    total = float(np.sum(each, dtype=np.float64))
    in_range = each.size * _ROW * 2.0**-120 < total < 2.0**127
    if not in_range or float(each.max()) * 64 > total:
        return None
    lean = _lean(np.concatenate(sampled), np.concatenate(exact))
    if abs(lean) > 2.0**-23:
        return None
    return total - lean * total + rest


@lru_cache
def _fractions() -> Array:
    return np.random.default_rng(20261121).random(4 * _SAMPLE)


def _anywhere(start: int, count: int, length: int) -> Array:
    """Numbers of some rows: not at equal distances, because such rows are too often alike; the same each time."""
    fractions = _fractions()
    start %= fractions.size
    return (fractions[start : start + count] * length).astype(np.intp)


def _lean(sums: Array, exact: Array) -> float:
    """The mean relative error of sums of squares of rows; infinity if nearly all rows are zero."""
    # Heavy rows count no more than four others: their errors are as large as any, and no more alike.
    weights = np.minimum(exact, 4 * float(np.mean(exact)))
    if np.count_nonzero(weights) * 16 < weights.size:
        return np.inf
    errors = np.divide(sums - exact, exact, out=np.zeros_like(exact), where=exact > 0)
    return float(np.vecdot(errors, weights) / np.sum(weights))


def exact_sum_of_squares(arrays: Iterable[Array]) -> float:
    """The sum in float64, which holds the square of a narrower float exactly."""
    return sum((float(np.dot(wide, wide)) for wide in _flat(arrays, np.float64, _CHUNK)), 0.0)


def _flat(arrays: Iterable[Array], dtype: Any, length: int) -> Iterator[Array]:
    """The elements of all arrays in a dtype: small arrays joined, large ones in pieces.

    A piece may be overwritten by the next.
    """
    buffer = np.empty(length, dtype)
    group: list[Array] = []
    room = length
    for array in arrays:
        size = array.size
        if size > room:
            if group:
                yield np.concatenate(group, axis=None, out=buffer[: length - room], casting="unsafe")
                group, room = [], length
            if size > length:
                yield from _pieces(array, buffer)
                continue
        group.append(array)
        room -= size
    if group:
        yield np.concatenate(group, axis=None, out=buffer[: length - room], casting="unsafe")


def _pieces(array: Array, buffer: Array) -> Iterator[Array]:
    as_they_are = array.dtype == buffer.dtype
    length = _PIECE if as_they_are else buffer.size
    for flat in flat_parts(array):
        for start in range(0, flat.size, length):
            piece = flat[start : start + length]
            if not as_they_are:
                np.copyto(buffer[: piece.size], piece, casting="unsafe")
            yield piece if as_they_are else buffer[: piece.size]


def flat_parts(x: Array) -> Iterator[Array]:
    """The elements as flat arrays in any order: views where the array lies in one piece, else small copies."""
    if x.flags.c_contiguous or x.flags.f_contiguous or x.size <= _LARGE:
        yield x.ravel(order="K")
        return
    axis = int(np.argmax(x.shape))
    for part in np.array_split(x, min(x.shape[axis], -(-x.size // _LARGE)), axis=axis):
        yield part.ravel(order="K")


def multiply(arrays: Sequence[Array], k: float, wide: Any, inplace: bool) -> list[Array]:
    """Each array, all of one dtype, times `k`, computed in the dtype `wide` and rounded once to its own."""
    # An array, because NumPy takes longer to look at a number.
    factor = np.asarray(k, wide)
    if not inplace:
        return _scaled_copies(arrays, factor)
    # Backwards, because what was read last is still in the cache.
    for array in reversed(arrays):
        _scale(array, factor, array)
    return list(arrays)


def _scale(source: Array, factor: Array, result: Array) -> None:
    if source.dtype == factor.dtype:
        np.multiply(source, factor, result)
    else:
        # Unsafe in name only: the dtypes of ml_dtypes register no other cast back from float32.
        np.multiply(source, factor, result, dtype=factor.dtype, casting="unsafe")


def _scaled_copies(arrays: Sequence[Array], factor: Array) -> list[Array]:
    """New arrays, which share buffers unless they are large: many pieces of memory are handed out slowly."""
    results: list[Array] = []
    shared = np.empty(0, arrays[0].dtype)
    left = sum([array.size for array in arrays])
    for group in _neighbours(arrays):
        first, size = group[0], sum([array.size for array in group])
        left -= size
        if first.nbytes >= _SHARED // 4 or not first.flags.c_contiguous:
            results.append(np.empty_like(first))
            _scale(first, factor, results[-1])
            continue
        if size > shared.size:
            shared = np.empty(min(size + left, _SHARED // first.itemsize), first.dtype)
        results += _scaled_together(group, factor, shared[:size])
        shared = shared[size:]
    return results


def _neighbours(arrays: Sequence[Array]) -> Iterator[list[Array]]:
    """Small arrays that follow one another, some chunk of them at a time; any other by itself."""
    group: list[Array] = []
    room = _LARGE
    for array in arrays:
        small = array.size < _LARGE // 4 and array.flags.c_contiguous
        if group and (not small or array.size > room):
            yield group
            group, room = [], _LARGE
        if small:
            group.append(array)
            room -= array.size
        else:
            yield [array]
    if group:
        yield group


def _scaled_together(arrays: Sequence[Array], factor: Array, result: Array) -> list[Array]:
    if len(arrays) == 1:
        shaped = result.reshape(arrays[0].shape)
        _scale(arrays[0], factor, shaped)
        return [shaped]
    np.concatenate(arrays, axis=None, out=result)
    _scale(result, factor, result)
    ends = list(itertools.accumulate([array.size for array in arrays]))
    flat = [result[start:end] for start, end in itertools.pairwise([0, *ends])]
    return [part if array.ndim == 1 else part.reshape(array.shape) for part, array in zip(flat, arrays, strict=True)]


def clip(x: Array, lower: float, upper: float, inplace: bool) -> Array:
    """The elements within bounds that their dtype represents exactly."""
    out = x if inplace else np.empty_like(x)
    np.clip(x, x.dtype.type(lower), x.dtype.type(upper), out=out)
    return out


def writeable(arrays: Sequence[Array]) -> list[bool]:
    """Whether each array can be written into; scalars and read-only views cannot."""
    return [x.flags.writeable for x in arrays]
