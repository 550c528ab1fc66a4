"""New NumPy arrays for results, in few pieces of memory."""

import bisect
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["new_arrays"]

Array = np.ndarray[Any, Any]

#: Elements of small arrays that are made at a time, few enough for the cache.
_JOINED = 1 << 17
#: Bytes of a buffer that new arrays share. Linux hands out memory in pages of 2 MiB if it is asked for so much, but up
#: to 2 MiB at either end of a piece in pages of 4 KiB, each with a fault of its own: fewer ends, less time.
_SHARED = 1 << 26


def new_arrays(arrays: Sequence[Array], sizes: Sequence[int]) -> tuple[list[Array], list[tuple[Any, Array]]]:
    """New arrays and, for each, what it is to be made from: an array, or several small ones for a buffer they share.

    They share buffers unless they are large: memory that the system hands out is cleared first, and many pieces of it
    are handed out slowly.
    """
    results: list[Array] = []
    pairs: list[tuple[Any, Array]] = []
    shared = np.empty(0, arrays[0].dtype)
    ends = list(itertools.accumulate(sizes))
    start = done = 0
    while start < len(arrays):
        stop = _end_of_group(sizes, ends, start, done)
        group, size = arrays[start:stop], ends[stop - 1] - done
        if len(group) == 1 and (group[0].nbytes >= _SHARED // 4 or not group[0].flags.c_contiguous):
            results.append(np.empty_like(group[0]))
            pairs.append((group[0], results[-1]))
        else:
            if size > shared.size:
                shared = np.empty(min(ends[-1] - done, _SHARED // shared.itemsize), shared.dtype)
            flat, shared = shared[:size], shared[size:]
            bounds = itertools.pairwise([done, *ends[start:stop]])
            parts = [flat[begin - done : end - done] for begin, end in bounds]
            results += [part if x.ndim == 1 else part.reshape(x.shape) for part, x in zip(parts, group, strict=True)]
            pairs.append((group, flat) if len(group) > 1 else (group[0], results[-1]))
        start, done = stop, ends[stop - 1]
    return results, pairs


def _end_of_group(sizes: Sequence[int], ends: Sequence[int], start: int, done: int) -> int:
    """Where the small arrays end that follow one another and are made together; any other is made by itself."""
    if sizes[start] > _JOINED // 4:
        return start + 1
    stop = bisect.bisect_right(ends, done + _JOINED, start)
    return next((index for index in range(start, stop) if sizes[index] > _JOINED // 4), stop)
