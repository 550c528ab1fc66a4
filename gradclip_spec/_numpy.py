"""The primitives of NumPy arrays, written for the caches of each core.

Also used for torch tensors on the CPU, whose memory NumPy can read as it stands.
"""

import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from gradclip_spec import _threads
from gradclip_spec._float32_sums import SumRows, rows_in_float32, sum_of_squares_in_float32
from gradclip_spec._float64_sums import (
    CACHED,
    Sum,
    Widen,
    added,
    sum_of_squares_in_float64,
    sums_of_squares_in_float64,
    widen_arrays,
)
from gradclip_spec._new_arrays import new_arrays

__all__ = [
    "SMALL",
    "clip",
    "multiply",
    "strange",
    "sum_of_large",
    "sum_of_squares",
    "sums_of_each",
    "writeable",
]

Array = np.ndarray[Any, Any]

#: Arrays up to this size are joined with others: to look at many takes longer than to copy them.
SMALL = 1 << 14
#: Elements of one piece of a large array: threads share out the pieces.
_PIECE = 1 << 20


def sum_of_squares(arrays: Sequence[Array]) -> Sum:
    """The sum of the squares of all elements, to a small part of float32's rounding error."""
    sizes = [array.size for array in arrays]
    if max(sizes, default=0) <= SMALL:
        return Sum(sum_of_squares_in_float64(arrays, sizes))
    small = [array for array in arrays if array.size <= SMALL]
    large = [array for array in arrays if array.size > SMALL]
    of_small = Sum(sum_of_squares_in_float64(small, [array.size for array in small]))
    # Narrower ones take as long to convert to float32 as to float64.
    pieces = [piece for array in large if array.dtype != np.float32 for piece in _flat_parts(array, CACHED)]
    of_narrower = Sum(sum_of_squares_in_float64(pieces, [piece.size for piece in pieces]))
    floats = [array for array in large if array.dtype == np.float32]
    return added(of_small, of_narrower, sum_of_large(floats, threads=_threads.available()))


def sums_of_each(
    arrays: Sequence[Array],
    sizes: Sequence[int],
    widen: Widen = widen_arrays,
    of_one: Callable[[Sequence[Array]], Sum] = sum_of_squares,
) -> list[Sum]:
    """The sums of the squares of each array; of many small ones at once, and of each other by `of_one`."""
    zero = Sum(0.0)
    sums = [of_one([array]) if size > SMALL else zero for array, size in zip(arrays, sizes, strict=True)]
    small = [index for index, size in enumerate(sizes) if 0 < size <= SMALL]
    of_small = sums_of_squares_in_float64([arrays[index] for index in small], [sizes[index] for index in small], widen)
    for index, total in zip(small, of_small, strict=True):
        sums[index] = Sum(total)
    return sums


def sum_of_large(
    arrays: Sequence[Array],
    sum_rows: SumRows = rows_in_float32,
    widen: Widen = widen_arrays,
    piece: int = _PIECE,
    threads: int = 1,
) -> Sum:
    """The sum of the squares of large arrays.

    `sum_rows` sums rows of them, `widen` converts them to float64, and `piece` is how many elements of an
    array are worked on at a time.
    """
    flat: list[Array] = []
    # What does not lie in one piece, and must be copied to be read in rows, is converted instead.
    others: list[Array] = []
    for array in arrays:
        if array.flags.forc and array.size <= piece:
            flat.append(array.ravel(order="K"))
        else:
            (flat if array.flags.forc else others).extend(_flat_parts(array, piece))
    of_others = Sum(sum_of_squares_in_float64(others, [part.size for part in others], widen))
    return added(of_others, sum_of_squares_in_float32(flat, sum_rows, widen, threads))


def _flat_parts(x: Array, piece: int) -> Iterator[Array]:
    """Views of pieces of an array, in any order: flat ones where it lies in one piece, else of few elements each."""
    if x.flags.forc:
        flat = x.ravel(order="K")
        for start in range(0, flat.size, piece):
            yield flat[start : start + piece]
    elif x.size <= CACHED:
        yield x
    else:
        axis = int(np.argmax(x.shape))
        for part in np.array_split(x, min(x.shape[axis], -(-x.size // CACHED)), axis=axis):
            yield from _flat_parts(part, piece)


def multiply(arrays: Sequence[Array], k: float, wide: Any, inplace: bool) -> list[Array]:
    """Each array, all of one dtype, times `k`, computed in the dtype `wide` and rounded once to its own."""
    # An array, because NumPy takes longer to look at a number, as it does at keywords.
    factor = np.asarray(k, wide)
    if arrays[0].dtype == factor.dtype:
        scale: Callable[..., Array] = np.multiply
    else:
        # Unsafe in name only: the dtypes of ml_dtypes register no other cast back from float32.
        scale = functools.partial(np.multiply, dtype=factor.dtype, casting="unsafe")
    sizes = [array.size for array in arrays]
    few_elements = sum(sizes) <= _PIECE
    if few_elements and (inplace or len(arrays) == 1):
        return [scale(array, factor, array if inplace else np.empty_like(array)) for array in arrays]
    if inplace:
        results, pairs = list(arrays), list(zip(arrays, arrays, strict=True))
    else:
        results, pairs = new_arrays(arrays, sizes)

    def work(start: int, stop: int) -> None:
        # Backwards, because what was read last is still in the cache.
        for source, result in reversed(pieces[start:stop]):
            if isinstance(source, list):
                # Several small arrays, whose results lie one after the other.
                np.concatenate(source, axis=None, out=result)
                source = result
            scale(source, factor, result)

    if few_elements:
        pieces, threads = pairs, 1
    else:
        pieces = [piece for source, result in pairs for piece in _pieces(source, result)]
        threads = 1 if inplace and _may_overlap(arrays) else _threads.available()
    _threads.spread(work, [result.size for _, result in pieces], threads)
    return results


def _may_overlap(arrays: Sequence[Array]) -> bool:
    """Whether arrays may share elements: two threads must not write to one at the same time."""
    # The most frequent answer first: arrays that own their memory share none.
    if all(array.base is None for array in arrays):
        return False
    bounds = sorted(map(np.lib.array_utils.byte_bounds, arrays))
    return any(start < end for (_, end), (start, _) in itertools.pairwise(bounds))


def _pieces(source: Any, result: Array) -> Iterable[tuple[Any, Array]]:
    """A source and its result, cut where threads are to share the work."""
    if result.size <= _PIECE or isinstance(source, list) or not source.flags.forc:
        return [(source, result)]
    return zip(_flat_parts(source, _PIECE), _flat_parts(result, _PIECE), strict=True)


def clip(x: Array, lower: float, upper: float, inplace: bool) -> Array:
    """The elements within bounds that their dtype represents exactly."""
    out = x if inplace else np.empty_like(x)
    np.clip(x, x.dtype.type(lower), x.dtype.type(upper), out=out)
    return out


def writeable(arrays: Sequence[Array]) -> list[bool]:
    """Whether each array can be written into; scalars and read-only views cannot."""
    return [x.flags.writeable for x in arrays]


def strange(arrays: Sequence[Array]) -> str:
    """That there is a masked array, of which what is masked would count or not by how it is read; empty if none is."""
    # The module is slow to import, and who has a masked array has imported it.
    module = sys.modules.get("numpy.ma")
    masked = module is not None and any(issubclass(kind, module.MaskedArray) for kind in set(map(type, arrays)))
    return "a masked array; fill what is masked (`filled`)" if masked else ""
