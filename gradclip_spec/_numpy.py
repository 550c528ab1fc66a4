"""The primitives of NumPy arrays, written for the caches of each core.

Also used for torch tensors on the CPU, whose memory NumPy can read as it stands.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from gradclip_spec import _threads
from gradclip_spec._rows import exact_sum, sum_by_rows

__all__ = ["JOINED", "clip", "multiply", "parts_of", "sum_of_squares", "writeable"]

Array = np.ndarray[Any, Any]

#: Elements of small arrays that are joined: enough of them to make the work on each small, few enough for the cache.
JOINED = 1 << 16
#: Elements of one piece of a large array, which is looked at twice and so had better stay in the cache.
_PIECE = 1 << 20
#: Elements that are copied at a time where an array does not lie in one piece.
_COPIED = 1 << 17
#: Bytes of a buffer that new arrays share. Above some 32 MiB the C library takes memory from the system each time anew,
#: which must clear it first.
_SHARED = 1 << 24


def sum_of_squares(arrays: Sequence[Array]) -> float:
    """The sum of the squares of all elements, to a small part of float32's rounding error."""
    by_dtype = [[array for array in arrays if array.dtype == dtype] for dtype in {array.dtype for array in arrays}]
    return sum(map(_sum_of_squares_alike, by_dtype if len(by_dtype) > 1 else [arrays]))


def _sum_of_squares_alike(arrays: Sequence[Array]) -> float:
    if not arrays:
        return 0.0
    dtype = arrays[0].dtype
    parts, sizes = parts_of(arrays, [array.size for array in arrays], JOINED // 4)
    if dtype == np.float32:
        return sum_by_rows(sizes, lambda: _reader(parts, dtype), _threads.available())
    # Others take as long to convert to float32 as to float64.
    return exact_sum(sizes, lambda: _reader(parts, dtype))


def _reader(parts: Sequence[Any], dtype: Any) -> Callable[[int], Array]:
    buffer = np.empty(JOINED, dtype)

    def read(index: int) -> Array:
        part = parts[index]
        if not isinstance(part, list):
            flat: Array = part.ravel(order="K")
            return flat
        size = sum([array.size for array in part])
        return np.concatenate(part, axis=None, out=buffer[:size])

    return read


def parts_of(
    arrays: Sequence[Any],
    sizes: Sequence[int],
    small: int,
    view: Callable[[Any], Array] = lambda x: x,
    piece: int = _PIECE,
) -> tuple[list[Any], list[int]]:
    """Parts to be read one after another, and their sizes: lists of small arrays, and pieces of large ones.

    Nothing is read or copied yet. `view` makes an array of NumPy of a large one, of which a piece has so many elements.
    """
    parts: list[Any] = []
    lengths: list[int] = []
    group: list[Any] = []
    room = JOINED
    for array, size in zip(arrays, sizes, strict=True):
        if size > small:
            pieces = list(_flat_parts(view(array), piece))
            parts += pieces
            lengths += [each.size for each in pieces]
            continue
        if size > room:
            parts.append(group)
            lengths.append(JOINED - room)
            group, room = [], JOINED
        group.append(array)
        room -= size
    if group:
        parts.append(group)
        lengths.append(JOINED - room)
    return parts, lengths


def _flat_parts(x: Array, piece: int = _PIECE) -> Iterator[Array]:
    """Views of pieces of an array, in any order: flat ones where it lies in one piece, else of few elements each."""
    if x.flags.c_contiguous or x.flags.f_contiguous:
        flat = x.ravel(order="K")
        for start in range(0, flat.size, piece):
            yield flat[start : start + piece]
    elif x.size <= _COPIED:
        yield x
    else:
        axis = int(np.argmax(x.shape))
        for part in np.array_split(x, min(x.shape[axis], -(-x.size // _COPIED)), axis=axis):
            yield from _flat_parts(part, piece)


def multiply(arrays: Sequence[Array], k: float, wide: Any, inplace: bool) -> list[Array]:
    """Each array, all of one dtype, times `k`, computed in the dtype `wide` and rounded once to its own."""
    # An array, because NumPy takes longer to look at a number.
    factor = np.asarray(k, wide)
    if arrays[0].dtype == factor.dtype:
        scale: Callable[..., Array] = np.multiply
    else:
        # Unsafe in name only: the dtypes of ml_dtypes register no other cast back from float32.
        scale = functools.partial(np.multiply, dtype=factor.dtype, casting="unsafe")
    results, parts = (list(arrays), list(zip(arrays, arrays, strict=True))) if inplace else _copies(arrays)
    if sum([array.size for array in arrays]) > _PIECE:
        parts = [part for source, result in parts for part in _pieces(source, result)]

    def work(start: int, stop: int) -> None:
        # Backwards, because what was read last is still in the cache.
        for source, result in reversed(parts[start:stop]):
            if isinstance(source, list):
                scale(np.concatenate(source, axis=None, out=result), factor, result)
            else:
                scale(source, factor, result)

    _threads.spread(work, [result.size for _, result in parts], _threads.available())
    return results


def _pieces(source: Any, result: Array) -> Iterable[tuple[Any, Array]]:
    """A source and its result, cut where threads are to share the work."""
    if result.size <= _PIECE or isinstance(source, list) or not source.flags.forc:
        return [(source, result)]
    return zip(_flat_parts(source), _flat_parts(result), strict=True)


def _copies(arrays: Sequence[Array]) -> tuple[list[Array], list[tuple[Any, Array]]]:
    """New arrays and, for each, what it is to be made from: an array, or several small ones for a buffer they share.

    They share buffers unless they are large: many pieces of memory are handed out slowly, and the C library gives what
    they leave free back to the system, which must clear it each time that it comes from there.
    """
    results: list[Array] = []
    pairs: list[tuple[Any, Array]] = []
    shared = np.empty(0, arrays[0].dtype)
    left = sum([array.size for array in arrays])
    for group in _neighbours(arrays):
        first, size = group[0], sum([array.size for array in group])
        left -= size
        if first.nbytes >= _SHARED // 4 or not first.flags.c_contiguous:
            results.append(np.empty_like(first))
            pairs.append((first, results[-1]))
            continue
        if size > shared.size:
            shared = np.empty(min(size + left, _SHARED // first.itemsize), first.dtype)
        results += _split(shared[:size], group)
        pairs.append((group, shared[:size]) if len(group) > 1 else (first, results[-1]))
        shared = shared[size:]
    return results, pairs


def _neighbours(arrays: Sequence[Array]) -> Iterator[list[Array]]:
    """Small arrays that follow one another, some of them at a time; any other by itself."""
    group: list[Array] = []
    room = 2 * JOINED
    for array in arrays:
        small = array.size <= JOINED // 2 and array.flags.c_contiguous
        if group and (not small or array.size > room):
            yield group
            group, room = [], 2 * JOINED
        if small:
            group.append(array)
            room -= array.size
        else:
            yield [array]
    if group:
        yield group


def _split(flat: Array, like: Sequence[Array]) -> list[Array]:
    ends = itertools.accumulate([array.size for array in like], initial=0)
    parts = [flat[start:end] for start, end in itertools.pairwise(ends)]
    return [part if array.ndim == 1 else part.reshape(array.shape) for part, array in zip(parts, like, strict=True)]


def clip(x: Array, lower: float, upper: float, inplace: bool) -> Array:
    """The elements within bounds that their dtype represents exactly."""
    out = x if inplace else np.empty_like(x)
    np.clip(x, x.dtype.type(lower), x.dtype.type(upper), out=out)
    return out


def writeable(arrays: Sequence[Array]) -> list[bool]:
    """Whether each array can be written into; scalars and read-only views cannot."""
    return [x.flags.writeable for x in arrays]
