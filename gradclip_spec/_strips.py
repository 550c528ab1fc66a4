"""Sums of squares at the speed of float32, with little more than the errors of float64.

The squares of each strip of 256 elements are summed in float32, everything else in float64. Of hundreds of strips and
more the rounding errors cancel, except for their bias: a part that all have in common, because strips are alike, or
because the squares of float16 and bfloat16 elements round in few ways. The bias is estimated and taken off: rows of
four strips are drawn and summed again in float64. A row is drawn the more likely the larger its sum is, so that the
mean relative error of those drawn estimates that of the whole sum, also where rows are unlike. If the errors of those
drawn scatter too widely for that, or a sum has left the range of float32, all is summed in float64.

The estimate is fooled where rows that are not drawn round otherwise than those that are, and hold a good part of the
sum. Of equal rows, every so many of all, one at least is drawn up to every thirteenth, wherever they begin.
"""

import bisect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gradclip_spec._scratch import borrowed
from gradclip_spec._threads import spread

__all__ = [
    "CACHED",
    "STRIPS",
    "Sum",
    "SumRows",
    "Widen",
    "add_strips",
    "added",
    "rows_in_float32",
    "sum_by_strips",
    "sum_of_squares_in_float64",
    "sums_of_squares_in_float64",
    "widened",
]

Array = np.ndarray[Any, Any]
#: `widen(arrays, out)` writes all elements of arrays, one after the other, into a flat array of float64.
Widen = Callable[[Sequence[Any], Array], None]
#: `sum_rows(matrices, sums)`: each line of a matrix is a strip, and every four lines are a row. It sums the squares of
#: each strip in float32 and the strips of each row in float64, and writes one number a row, matrix after matrix.
SumRows = Callable[[Sequence[Array], Array], None]

#: Elements whose squares are summed in float32.
_STRIP = 256
#: Strips of a row, which is drawn and summed again as a whole: what lies apart takes longer to reach than to read.
STRIPS = 4
_ROW = STRIPS * _STRIP
#: From this many elements on there are about as many rows as are drawn.
_LARGE = 1 << 17
#: Rows that are drawn.
_SAMPLE = 128
#: The standard deviation of their errors beyond which they say too little. The standard error of their mean is an
#: eleventh of it, that of the norm half of this: an eleventh of the float32 rounding that follows, of `2**-24`.
#: Ordinary gradients and sparse ones have less than half of this, heavy tails most of it.
_SCATTER = 2.0**-23
#: How many standard errors a sum may be off.
_STANDARD_ERRORS = 4
#: Elements that are summed in float64 at a time: they stay in the second cache.
CACHED = 1 << 16
#: Elements of a product too short for BLAS to start threads, which wait for each other longer than it takes.
_ALONE = 1 << 10
#: Elements of a part that is worth a thread's while, if others are as large.
_SHARE = 1 << 18


class Sum(NamedTuple):
    """A sum of squares, and how far it may be off beyond the rounding of float64."""

    value: float
    error: float = 0.0

    @property
    def relative_error(self) -> float:
        """The same relative to the sum."""
        return self.error / self.value if 0 < self.value < math.inf else 0.0


def added(*sums: Sum) -> Sum:
    """The sum of sums."""
    return Sum(sum(each.value for each in sums), sum(each.error for each in sums))


def rows_in_float32(matrices: Sequence[Array], sums: Array) -> None:
    """The sums of the squares of each row of strips of NumPy arrays."""
    with borrowed(len(sums) * STRIPS, np.float32) as squares:
        end = 0
        for matrix in matrices:
            begin, end = end, end + len(matrix)
            np.vecdot(matrix, matrix, out=squares[begin:end])
        add_strips("ij->i", squares, sums)


def add_strips(subscripts: str, strips: Array, sums: Array) -> None:
    """Add up in float64, for each row, the squares of its strips, or with other subscripts the squares of norms."""
    with borrowed(CACHED, np.float64) as buffer:
        for begin in range(0, strips.size, CACHED):
            some = strips[begin : begin + CACHED]
            wide = buffer[: some.size]
            np.copyto(wide, some)
            rows = wide.reshape(-1, STRIPS)
            # Of rows so short, this is the fastest sum of NumPy's.
            operands = [rows] * (1 + subscripts.count(","))
            np.einsum(subscripts, *operands, out=sums[begin // STRIPS :][: len(rows)])


def widened(arrays: Sequence[Array], out: Array) -> None:
    """All elements of arrays of NumPy in float64, which holds the square of any narrower float exactly."""
    # Unsafe in name only: the dtypes of ml_dtypes register no cast to float64 as safe.
    np.concatenate(arrays, axis=None, out=out, casting="unsafe")


def sum_of_squares_in_float64(arrays: Sequence[Any], sizes: Sequence[int], widen: Widen = widened) -> float:
    """The sum of the squares of all elements; arrays larger than the cache are flat ones of NumPy."""
    if not arrays:
        return 0.0
    sums: list[float] = []
    with borrowed(CACHED, np.float64) as buffer:
        for start, stop, size in _groups(sizes):
            if size <= CACHED:
                sums.append(_widened_sum(arrays[start:stop], size, widen, buffer))
                continue
            for begin in range(0, size, CACHED):
                piece = arrays[start][begin : begin + CACHED]
                sums.append(_widened_sum([piece], piece.size, widen, buffer))
    return math.fsum(sums)


def sums_of_squares_in_float64(arrays: Sequence[Any], sizes: Sequence[int], widen: Widen = widened) -> list[float]:
    """The sums of the squares of small arrays, none of them empty, each by itself."""
    sums: list[float] = []
    with borrowed(CACHED, np.float64) as buffer:
        for start, stop, size in _groups(sizes):
            squares = buffer[:size]
            widen(arrays[start:stop], squares)
            np.square(squares, out=squares)
            begins = list(itertools.accumulate(sizes[start : stop - 1], initial=0))
            sums += np.add.reduceat(squares, begins).tolist()
    return sums


def _groups(sizes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Where arrays of these sizes start and stop that fit the cache together, and their size; larger ones are alone."""
    ends = list(itertools.accumulate(sizes))
    start = done = 0
    while start < len(sizes):
        stop = max(start + 1, bisect.bisect_right(ends, done + CACHED, start))
        yield start, stop, ends[stop - 1] - done
        start, done = stop, ends[stop - 1]


def _widened_sum(arrays: Sequence[Any], size: int, widen: Widen, buffer: Array) -> float:
    widen(arrays, buffer[:size])
    rows = -(-size // _ALONE)
    buffer[size : rows * _ALONE] = 0
    matrix = buffer[: rows * _ALONE].reshape(rows, _ALONE)
    return float(np.sum(np.vecdot(matrix, matrix)))


def sum_by_strips(
    parts: Sequence[Array], sum_rows: SumRows = rows_in_float32, widen: Widen = widened, threads: int = 1
) -> Sum:
    """The sum of the squares of the elements of flat arrays."""
    sizes = [part.size for part in parts]
    total = _sum_without_bias(parts, sizes, sum_rows, widen, threads) if sum(sizes) >= _LARGE else None
    return Sum(sum_of_squares_in_float64(parts, sizes, widen)) if total is None else total


def _sum_without_bias(
    parts: Sequence[Array], sizes: Sequence[int], sum_rows: SumRows, widen: Widen, threads: int
) -> Sum | None:
    """None if float32 cannot be trusted with these elements."""
    size = sum(sizes)
    matrices = [part[: each // _ROW * _ROW].reshape(-1, _STRIP) for part, each in zip(parts, sizes, strict=True)]
    bounds = list(itertools.accumulate([each // _ROW for each in sizes], initial=0))
    of_rows = np.empty(bounds[-1])

    def work(start: int, stop: int) -> None:
        sum_rows(matrices[start:stop], of_rows[bounds[start] : bounds[stop]])

    # Of small parts, threads would wait longer for Python's lock than they work.
    spread(work, sizes, threads if size >= len(sizes) * _SHARE else 1)
    running = np.cumsum(of_rows)
    total = float(running[-1])
    # Far from where squares underflow, also if what is subnormal is flushed to zero.
    if not size * 2.0**-96 < total < 2.0**127:
        return None
    drawn = np.searchsorted(running, _places() * total, "right").tolist()
    # What has been drawn, and what is in no row, is read again all at once.
    again: list[Array] = []
    rounded: list[float] = []
    for number in drawn:
        # A product that is rounded up may lie beyond the last row.
        row = min(number, bounds[-1] - 1)
        owner = bisect.bisect_right(bounds, row) - 1
        begin = (row - bounds[owner]) * _ROW
        again.append(parts[owner][begin : begin + _ROW])
        rounded.append(float(of_rows[row]))
    again += [part[each // _ROW * _ROW :] for part, each in zip(parts, sizes, strict=True) if each % _ROW]
    exact = sums_of_squares_in_float64(again, [part.size for part in again], widen)
    bias, scatter = _bias(rounded, exact[:_SAMPLE])
    if scatter > _SCATTER:
        return None
    return Sum(total / (1 + bias) + math.fsum(exact[_SAMPLE:]), _STANDARD_ERRORS * scatter / math.sqrt(_SAMPLE) * total)


def _bias(sums: Sequence[float], exact: Sequence[float]) -> tuple[float, float]:
    """The mean of the relative errors of some sums, and their standard deviation."""
    errors = [rounded / true - 1 if true > 0 else 0.0 for rounded, true in zip(sums, exact, strict=True)]
    bias = math.fsum(errors) / _SAMPLE
    return bias, math.sqrt(math.fsum((error - bias) ** 2 for error in errors) / _SAMPLE)


@lru_cache
def _places() -> Array:
    """A random number from each of so many equal intervals of 0 to 1; the seed makes them the same each time."""
    places: Array = (np.arange(_SAMPLE) + np.random.default_rng(20261121).random(_SAMPLE)) / _SAMPLE
    return places
