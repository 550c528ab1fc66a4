"""Sums of squares at the speed of float32, to a small part of its rounding error.

The squares of each strip of 256 elements are summed in float32, everything else in float64. Of hundreds of strips and
more the rounding errors cancel, except for their bias: a part that all have in common, because strips are alike, or
because the squares of float16 and bfloat16 elements round in few ways. The bias is estimated and taken off: rows of
four strips are drawn and summed again in float64. A row is drawn the more likely the larger its sum is, so that the
mean relative error of those drawn estimates that of the whole sum, also where rows are unlike. If the errors of those
drawn scatter too widely for that, or a sum has left the range of float32, all is summed in float64.

The estimate is fooled where rows that are not drawn round otherwise than those that are, and hold a good part of the
sum. Where rows of a kind come back regularly, every tenth or more often, some of them are drawn, as good as always;
what is rarer holds less than a tenth of the sum, if rows are alike.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gradclip_spec._float64_sums import CACHED, Sum, Widen, sum_of_squares_in_float64, widened
from gradclip_spec._scratch import borrowed
from gradclip_spec._threads import spread

__all__ = [
    "ERROR_OF_NORM",
    "STRIPS",
    "SumRows",
    "add_strips",
    "rows_in_float32",
    "sum_by_strips",
]

Array = np.ndarray[Any, Any]
#: `sum_rows(matrices, sums)`: each line of a matrix is a strip, and every four of them are a row of strips. It sums the
#: squares of each strip in float32 and the strips of each row in float64, and writes one number a row, one matrix after
#: the other.
SumRows = Callable[[Sequence[Array], Array], None]

#: Elements whose squares are summed in float32.
_STRIP = 256
#: Strips of a row, which is drawn and summed again as a whole: what lies apart takes longer to reach than to read.
STRIPS = 4
_ROW = STRIPS * _STRIP
#: From this many elements on there are at least nearly as many rows as are drawn.
_LARGE = 1 << 17
#: Rows that are drawn.
_SAMPLE = 128
#: The standard deviation of their relative errors beyond which they say too little. The standard error of their mean is
#: an eleventh of it, and that of the norm half as much: an eleventh of `2**-24`, which is float32's own rounding. The
#: errors of ordinary gradients, and of sparse ones, scatter less than half as widely; those of heavy tails nearly so.
_SCATTER = 2.0**-23
#: How many standard errors a sum may be off.
_STANDARD_ERRORS = 4
#: How far a norm may be off, relative to itself, if the errors of its sum scatter as widely as is trusted.
ERROR_OF_NORM = _STANDARD_ERRORS * _SCATTER / math.sqrt(_SAMPLE) / 2
#: Elements of a part that keep one thread busy for as long as it holds Python's lock.
_SHARE = 1 << 15


def rows_in_float32(matrices: Sequence[Array], sums: Array) -> None:
    """The `SumRows` of NumPy arrays."""
    with borrowed(len(sums) * STRIPS, np.float32) as squares:
        end = 0
        for matrix in matrices:
            begin, end = end, end + len(matrix)
            np.vecdot(matrix, matrix, out=squares[begin:end])
        add_strips(squares, sums)


def add_strips(strips: Array, sums: Array, are_norms: bool = False) -> None:
    """Write, for each row, the sum in float64 of the sums of its strips, or of the squares of their norms."""
    with borrowed(CACHED, np.float64) as buffer:
        for begin in range(0, strips.size, CACHED):
            some = strips[begin : begin + CACHED]
            wide = buffer[: some.size]
            np.copyto(wide, some)
            if are_norms:
                np.square(wide, out=wide)
            # For rows so short, faster than `np.sum`.
            first, second, *others = wide.reshape(-1, STRIPS).T
            rows = sums[begin // STRIPS :][: first.size]
            np.add(first, second, out=rows)
            for other in others:
                rows += other


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

    # More threads would wait for Python's lock.
    spread(work, sizes, min(threads, size // len(sizes) // _SHARE))
    running = np.cumsum(of_rows)
    total = float(running[-1])
    # Far from where squares underflow, also if what is subnormal is flushed to zero.
    if not size * 2.0**-96 < total < 2.0**127:
        return None
    # A product that is rounded up may lie beyond the last row.
    drawn = np.minimum(np.searchsorted(running, _places() * total, "right"), bounds[-1] - 1)
    bias, scatter = _bias(of_rows[drawn], _rows_in_float64(parts, bounds, drawn, widen))
    if scatter > _SCATTER:
        return None
    rests = [part[each // _ROW * _ROW :] for part, each in zip(parts, sizes, strict=True) if each % _ROW]
    rest = sum_of_squares_in_float64(rests, [part.size for part in rests], widen)
    return Sum(total / (1 + bias) + rest, _STANDARD_ERRORS * scatter / math.sqrt(_SAMPLE) * total)


def _rows_in_float64(parts: Sequence[Array], bounds: Sequence[int], drawn: Array, widen: Widen) -> Array:
    """The sums of the squares of rows that are drawn, by their numbers; `bounds` are those of each part's first row."""
    owners = np.searchsorted(bounds, drawn, "right") - 1
    begins = (drawn - np.asarray(bounds)[owners]) * _ROW
    places = zip(owners.tolist(), begins.tolist(), strict=True)
    with borrowed(drawn.size * _ROW, np.float64) as elements:
        widen([parts[owner][begin : begin + _ROW] for owner, begin in places], elements)
        rows = elements.reshape(-1, _ROW)
        sums: Array = np.vecdot(rows, rows)
        return sums


def _bias(sums: Array, exact: Array) -> tuple[float, float]:
    """The mean of the relative errors of some sums, and their standard deviation."""
    errors = np.divide(sums, exact, out=np.ones_like(exact), where=exact > 0) - 1
    bias = float(np.sum(errors)) / errors.size
    errors -= bias
    return bias, math.sqrt(float(np.dot(errors, errors)) / errors.size)


@lru_cache
def _places() -> Array:
    """A random number from each of so many equal intervals of 0 to 1; the seed makes them the same each time."""
    places: Array = (np.arange(_SAMPLE) + np.random.default_rng(20261121).random(_SAMPLE)) / _SAMPLE
    return places
