"""Sums of squares at the speed of float32, with little more than the errors of float64.

The squares of each strip of 256 elements are summed in float32, everything else in float64. Of thousands of strips the
rounding errors cancel, except for their bias: a part that all have in common, because strips are alike, or because the
squares of float16 and bfloat16 elements round in few ways. The bias is estimated and taken off: rows of four strips
are drawn and summed again in float64. A row is drawn the more likely the larger its sum is, so that the mean relative
error of those drawn estimates that of the whole sum, however unlike the rows are. If the errors of those drawn scatter
too widely for that, or a sum has left the range of float32, all is summed in float64.

The estimate can be fooled by rows made for it: rare ones that round much worse than all others, at places that are
never drawn.
"""

import bisect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gradclip_spec._threads import spread

__all__ = [
    "CHUNK",
    "SumStrips",
    "Widen",
    "sum_by_strips",
    "sum_in_float64",
    "sums_in_float32",
    "sums_in_float64",
    "widened",
]

Array = np.ndarray[Any, Any]
#: `widen(arrays, out)` writes all elements of arrays, one after the other, into a flat array of float64.
Widen = Callable[[Sequence[Any], Array], None]
#: `sum_strips(matrices, sums)` writes the sums of the squares of the rows of matrices, one after the other.
SumStrips = Callable[[Sequence[Array], Array], None]

#: Elements whose squares are summed in float32.
_STRIP = 256
#: Elements that are drawn and summed again together.
_ROW = 4 * _STRIP
#: From this many elements on there are rows enough.
_LARGE = 1 << 17
#: Rows that are drawn.
_SAMPLE = 128
#: The standard deviation of their errors beyond which they say too little. The standard error of their mean is a
#: twelfth of it, that of the norm half of this: a twelfth of the float32 rounding that follows, of `2**-24`. That of
#: ordinary gradients is half of this and less.
_SCATTER = 2.0**-23
#: Elements that are summed in float64 at a time: they stay in the second cache.
CHUNK = 1 << 16
#: Elements of a part that is worth a thread's while, if others are as large.
_SHARE = 1 << 18


def sums_in_float32(matrices: Sequence[Array], sums: Array) -> None:
    """The sums of the squares of the rows of matrices, one matrix after the other."""
    end = 0
    for matrix in matrices:
        begin, end = end, end + len(matrix)
        np.vecdot(matrix, matrix, out=sums[begin:end])


def widened(arrays: Sequence[Array], out: Array) -> None:
    """All elements of arrays of NumPy in float64, which holds the square of any narrower float exactly."""
    # Unsafe in name only: the dtypes of ml_dtypes register no cast to float64 as safe.
    np.concatenate(arrays, axis=None, out=out, casting="unsafe")


def sum_in_float64(arrays: Sequence[Any], sizes: Sequence[int], widen: Widen = widened) -> float:
    """The sum of the squares of all elements; arrays larger than a chunk are flat ones of NumPy."""
    # No larger than it must be, since many sums are of one small array.
    buffer = np.empty(min(-(-sum(sizes) // _ROW) * _ROW, CHUNK))
    sums: list[float] = []
    for start, stop, size in _groups(sizes):
        if size <= CHUNK:
            sums.append(_widened_sum(arrays[start:stop], size, widen, buffer))
            continue
        for begin in range(0, size, CHUNK):
            chunk = arrays[start][begin : begin + CHUNK]
            sums.append(_widened_sum([chunk], chunk.size, widen, buffer))
    return math.fsum(sums)


def sums_in_float64(arrays: Sequence[Any], sizes: Sequence[int], widen: Widen = widened) -> list[float]:
    """The sums of the squares of small arrays, none of them empty, each by itself."""
    buffer = np.empty(min(sum(sizes), CHUNK))
    sums: list[float] = []
    for start, stop, size in _groups(sizes):
        squares = buffer[:size]
        widen(arrays[start:stop], squares)
        np.square(squares, out=squares)
        begins = list(itertools.accumulate(sizes[start : stop - 1], initial=0))
        sums += np.add.reduceat(squares, begins).tolist()
    return sums


def _groups(sizes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Where arrays of these sizes start and stop that together are a chunk, and their size; larger ones are alone."""
    ends = list(itertools.accumulate(sizes))
    start = done = 0
    while start < len(sizes):
        stop = max(start + 1, bisect.bisect_right(ends, done + CHUNK, start))
        yield start, stop, ends[stop - 1] - done
        start, done = stop, ends[stop - 1]


def _widened_sum(arrays: Sequence[Any], size: int, widen: Widen, buffer: Array) -> float:
    widen(arrays, buffer[:size])
    # In rows too short for BLAS to start threads, which wait for each other longer than the sum takes.
    rows = -(-size // _ROW)
    buffer[size : rows * _ROW] = 0
    matrix = buffer[: rows * _ROW].reshape(rows, _ROW)
    return float(np.sum(np.vecdot(matrix, matrix)))


def sum_by_strips(
    parts: Sequence[Array], sum_strips: SumStrips = sums_in_float32, widen: Widen = widened, threads: int = 1
) -> float:
    """The sum of the squares of the elements of flat arrays, each of thousands."""
    sizes = [part.size for part in parts]
    total = _sum_by_strips(parts, sizes, sum_strips, widen, threads) if sum(sizes) >= _LARGE else None
    return sum_in_float64(parts, sizes, widen) if total is None else total


def _sum_by_strips(
    parts: Sequence[Array], sizes: Sequence[int], sum_strips: SumStrips, widen: Widen, threads: int
) -> float | None:
    """None if float32 cannot be trusted with these elements."""
    size, strips = sum(sizes), _ROW // _STRIP
    matrices = [part[: each // _ROW * _ROW].reshape(-1, _STRIP) for part, each in zip(parts, sizes, strict=True)]
    bounds = list(itertools.accumulate([each // _ROW for each in sizes], initial=0))
    sums = np.empty((bounds[-1], strips), np.float32)

    def work(start: int, stop: int) -> None:
        sum_strips(matrices[start:stop], sums[bounds[start] : bounds[stop]].reshape(-1))

    # Of small parts, threads would wait longer for Python's lock than they work.
    spread(work, sizes, threads if size >= len(sizes) * _SHARE else 1)
    # Of rows so short, this is the fastest sum of NumPy's.
    of_rows: Array = np.einsum("ij->i", sums.astype(np.float64))
    running = np.cumsum(of_rows)
    total = float(running[-1])
    if not size * 2.0**-120 < total < 2.0**127:
        return None
    # A product that is rounded up may lie beyond the last row.
    drawn = np.minimum(np.searchsorted(running, _places() * total, "right"), len(of_rows) - 1)
    bias = _bias(of_rows[drawn], _sums_of_drawn(parts, bounds, drawn, widen))
    if bias is None:
        return None
    rests = [part[each // _ROW * _ROW :] for part, each in zip(parts, sizes, strict=True)]
    return total * (1 - bias) + sum_in_float64(rests, [each % _ROW for each in sizes], widen)


def _sums_of_drawn(parts: Sequence[Array], bounds: Sequence[int], drawn: Array, widen: Widen) -> Array:
    """The sums in float64 of the rows drawn, given their numbers, and those with which each part begins and ends."""
    owners = np.searchsorted(bounds, drawn, "right") - 1
    begins = ((drawn - np.asarray(bounds)[owners]) * _ROW).tolist()
    rows = np.empty((_SAMPLE, _ROW))
    widen(
        [parts[owner][begin : begin + _ROW] for owner, begin in zip(owners.tolist(), begins, strict=True)],
        rows.reshape(-1),
    )
    return np.asarray(np.vecdot(rows, rows))


def _bias(sums: Array, exact: Array) -> float | None:
    """The mean relative error of some sums, or None if their errors scatter too widely."""
    errors = np.divide(sums - exact, exact, out=np.zeros_like(exact), where=exact > 0)
    bias = float(np.sum(errors)) / _SAMPLE
    scatter = float(np.vecdot(errors - bias, errors - bias)) / _SAMPLE
    return bias if scatter <= _SCATTER**2 else None


@lru_cache
def _places() -> Array:
    """Numbers from 0 to 1, one in each of so many intervals: at no equal distances, each time the same."""
    places: Array = (np.arange(_SAMPLE) + np.random.default_rng(20261121).random(_SAMPLE)) / _SAMPLE
    return places
