"""Sums of squares at the speed of float32, with the errors of float64.

The squares of each row of a thousand elements are summed in float32, and these sums in float64. The rounding errors of
some hundred rows and more cancel, but for what they lean one way: those of float16 and bfloat16 elements do a little,
those of rows that are alike a lot. How far they lean is seen in some of the rows, which are summed again in float64,
and taken off. A row is drawn the more likely the larger its sum is, so that the mean relative error of those drawn is
that of the whole sum, however unlike the rows are. If their errors are too unlike each other to tell, or a sum has left
the range of float32, all is summed in float64.
"""

import bisect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gradclip_spec._threads import spread

__all__ = ["CHUNK", "SumRows", "Widen", "exact_sum", "exact_sums", "sum_by_rows", "sums_in_float32", "widened"]

Array = np.ndarray[Any, Any]
#: `widen(arrays, out)` writes all elements of arrays, one after the other, into a flat array of float64.
Widen = Callable[[Sequence[Any], Array], None]
#: `sum_rows(matrices, sums)` writes the sums of the squares of the rows of matrices, one after the other.
SumRows = Callable[[Sequence[Array], Array], None]

_ROW = 1024
#: From this many elements on there are rows enough.
_LARGE = 1 << 17
#: Rows that are summed again.
_SAMPLE = 128
#: A standard deviation of their errors beyond which they say too little of the others: that of their mean is a twelfth
#: of it, that of the norm half of this, and must be a small part of the float32 rounding that follows, of `2**-24`.
_UNLIKE = 2.0**-22
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


def exact_sum(arrays: Sequence[Any], sizes: Sequence[int], widen: Widen = widened) -> float:
    """The sum of the squares of all elements, in float64; larger arrays are flat ones of NumPy."""
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


def exact_sums(arrays: Sequence[Any], sizes: Sequence[int], widen: Widen = widened) -> list[float]:
    """The sums of the squares of small arrays, none of them empty, each by itself, in float64."""
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


def sum_by_rows(
    parts: Sequence[Array], sum_rows: SumRows = sums_in_float32, widen: Widen = widened, threads: int = 1
) -> float:
    """The sum of the squares of the elements of flat arrays, each of thousands."""
    sizes = [part.size for part in parts]
    total = _sum_by_rows(parts, sizes, sum_rows, widen, threads) if sum(sizes) >= _LARGE else None
    return exact_sum(parts, sizes, widen) if total is None else total


def _sum_by_rows(
    parts: Sequence[Array], sizes: Sequence[int], sum_rows: SumRows, widen: Widen, threads: int
) -> float | None:
    """None if float32 cannot be trusted with these elements."""
    size = sum(sizes)
    matrices = [part[: each // _ROW * _ROW].reshape(-1, _ROW) for part, each in zip(parts, sizes, strict=True)]
    bounds = list(itertools.accumulate([each // _ROW for each in sizes], initial=0))
    sums = np.empty(bounds[-1], np.float32)

    def work(start: int, stop: int) -> None:
        sum_rows(matrices[start:stop], sums[bounds[start] : bounds[stop]])

    # Of small parts, threads would wait longer for Python's lock than they work.
    spread(work, sizes, threads if size >= len(sizes) * _SHARE else 1)
    running = sums.astype(np.float64)
    np.cumsum(running, out=running)
    total = float(running[-1])
    if not size * 2.0**-120 < total < 2.0**127:
        return None
    # A product that is rounded up may lie beyond the last row.
    drawn = np.minimum(np.searchsorted(running, _places() * total, "right"), len(sums) - 1)
    owners = np.searchsorted(bounds, drawn, "right") - 1
    again = np.empty((_SAMPLE, _ROW))
    numbers = (drawn - np.asarray(bounds)[owners]).tolist()
    widen([matrices[owner][number] for owner, number in zip(owners.tolist(), numbers, strict=True)], again.reshape(-1))
    exact = np.vecdot(again, again)
    leans = np.divide(sums[drawn] - exact, exact, out=np.zeros_like(exact), where=exact > 0)
    lean = float(np.sum(leans)) / _SAMPLE
    if float(np.vecdot(leans - lean, leans - lean)) > _SAMPLE * _UNLIKE**2:
        return None
    total -= lean * total
    rests = [part[each // _ROW * _ROW :] for part, each in zip(parts, sizes, strict=True)]
    return total + exact_sum(rests, [each % _ROW for each in sizes], widen)


@lru_cache
def _places() -> Array:
    """Numbers from 0 to 1, one in each of so many intervals: at no equal distances, each time the same."""
    places: Array = (np.arange(_SAMPLE) + np.random.default_rng(20261121).random(_SAMPLE)) / _SAMPLE
    return places
