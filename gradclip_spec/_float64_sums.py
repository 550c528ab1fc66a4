"""Sums of squares in float64, which holds the square of every narrower float exactly."""

import bisect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradclip_spec._scratch import borrowed

__all__ = [
    "CACHED",
    "Sum",
    "Widen",
    "added",
    "sum_of_squares_in_float64",
    "sums_of_squares_in_float64",
    "widen_arrays",
]

Array = np.ndarray[Any, Any]
#: `widen(arrays, out)` writes all elements of arrays, one after the other, into a flat array of float64.
Widen = Callable[[Sequence[Any], Array], None]

#: Elements that are summed in float64 at a time: they stay in a core's second cache.
CACHED = 1 << 16
#: Elements of one dot product, so few that BLAS starts no threads, for which one would wait longer than it takes.
_ROW = 1 << 10


class Sum(NamedTuple):
    """A sum of squares."""

    value: float
    #: How far it may be off, as a difference; roundings of float64 do not count.
    absolute_error: float = 0.0

    @property
    def relative_error(self) -> float:
        """The same relative to the sum, where that is possible."""
        return self.absolute_error / self.value if 0 < self.value < math.inf else 0.0


def added(*sums: Sum) -> Sum:
    """The sum of sums."""
    return Sum(sum(each.value for each in sums), sum(each.absolute_error for each in sums))


def widen_arrays(arrays: Sequence[Array], out: Array) -> None:
    """Write all elements of arrays of NumPy, one after the other, into a flat array of float64."""
    # Unsafe in name only: the dtypes of ml_dtypes register no cast to float64 as safe.
    np.concatenate(arrays, axis=None, out=out, casting="unsafe")


def sum_of_squares_in_float64(arrays: Sequence[Any], sizes: Sequence[int], widen: Widen = widen_arrays) -> float:
    """The sum of the squares of all elements. Arrays of more than CACHED elements must be flat ones of NumPy."""
    with borrowed(CACHED, np.float64) as buffer:
        return math.fsum(_sum_of_group(group, size, widen, buffer) for group, size in _groups(arrays, sizes))


def sums_of_squares_in_float64(arrays: Sequence[Any], sizes: Sequence[int], widen: Widen = widen_arrays) -> list[float]:
    """The sums of the squares of arrays of at most CACHED elements, none of them empty, each by itself."""
    sums: list[float] = []
    with borrowed(CACHED, np.float64) as buffer:
        for start, stop, size in _bounds_of_groups(sizes):
            squares = buffer[:size]
            widen(arrays[start:stop], squares)
            np.square(squares, out=squares)
            begins = list(itertools.accumulate(sizes[start : stop - 1], initial=0))
            sums += np.add.reduceat(squares, begins).tolist()
    return sums


def _groups(arrays: Sequence[Any], sizes: Sequence[int]) -> Iterator[tuple[Sequence[Any], int]]:
    """Arrays, or a piece of a larger one, of at most CACHED elements together, and how many these are."""
    for start, stop, size in _bounds_of_groups(sizes):
        if size <= CACHED:
            yield arrays[start:stop], size
        else:
            for begin in range(0, size, CACHED):
                piece = arrays[start][begin : begin + CACHED]
                yield [piece], piece.size


def _bounds_of_groups(sizes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Groups of arrays of at most CACHED elements together: the first, the end, the elements. Larger ones are alone."""
    ends = list(itertools.accumulate(sizes))
    start = done = 0
    while start < len(sizes):
        stop = max(start + 1, bisect.bisect_right(ends, done + CACHED, start))
        yield start, stop, ends[stop - 1] - done
        start, done = stop, ends[stop - 1]


def _sum_of_group(arrays: Sequence[Any], size: int, widen: Widen, buffer: Array) -> float:
    """The sum of the squares of arrays of `size` elements together."""
    widen(arrays, buffer[:size])
    # The last row is filled up with zeros.
    padded = size + -size % _ROW
    buffer[size:padded] = 0
    matrix = buffer[:padded].reshape(-1, _ROW)
    return float(np.sum(np.vecdot(matrix, matrix)))
