"""Sums of squares at the speed of float32, to a small part of its rounding error.

The squares of each row of 1,024 elements, or of its halves or quarters, are summed in float32, nearly everything else
in float64. Of hundreds of rows and more the rounding errors cancel, except for their bias: a part that all have in
common, because rows are alike, or because the squares of float16 and bfloat16 elements round in few ways. The bias is
estimated and taken off: some rows are drawn and summed again in float64. A row is drawn the more likely the larger its
sum is, so that the mean relative error of those drawn estimates that of the whole sum, also where rows are unlike. If
the errors of those drawn scatter too widely for that, more are drawn; if that does not help, or a sum has left the
range of float32, all is summed in float64.

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

from gradclip_spec._float64_sums import Sum, Widen, sum_of_squares_in_float64, widen_arrays
from gradclip_spec._scratch import borrowed
from gradclip_spec._threads import spread

__all__ = ["ERROR_OF_NORM", "ROW", "SumRows", "rows_in_float32", "sum_of_squares_in_float32"]

Array = np.ndarray[Any, Any]
#: `sum_rows(matrices, sums)`: each line of a matrix is a row. It writes the sum of the squares of each to about the
#: rounding error of float32, one matrix after the other.
SumRows = Callable[[Sequence[Array], Array], None]

#: Elements of a row. What is drawn is as long, because what lies apart takes longer to reach than to read.
ROW = 1 << 10
#: From this many elements on there are at least nearly as many rows as are drawn.
_LARGE = 1 << 17
#: Rows that are drawn: one in so many, which takes little beside reading all of them, but at least and at most these.
_ONE_IN = 256
_LEAST, _MOST = 128, 512
#: The standard error of the bias that is trusted. The norm's is half as much: an eleventh of `2**-24`, which is
#: float32's own rounding. Of ordinary gradients the fewest rows err by half of it, of heavy tails by more.
_STANDARD_ERROR = 2.0**-23 / math.sqrt(_LEAST)
#: How many standard errors a sum may be off.
_STANDARD_ERRORS = 4
#: How far a norm may be off, relative to itself, if the errors of its sum scatter as widely as is trusted.
ERROR_OF_NORM = _STANDARD_ERRORS * _STANDARD_ERROR / 2
#: Elements of a part that keep one thread busy for as long as it holds Python's lock.
_SHARE = 1 << 16
#: Up to so many dot products NumPy makes without letting other threads run. Of a part with so few rows it is asked for
#: those of quarters.
_ALONE = 500
_FOUR = np.ones(4, np.float32)


def rows_in_float32(matrices: Sequence[Array], sums: Array) -> None:
    """The `SumRows` of NumPy arrays."""
    with borrowed(sums.size, np.float32) as squares:
        end = 0
        for matrix in matrices:
            begin, end = end, end + len(matrix)
            if len(matrix) > _ALONE:
                np.vecdot(matrix, matrix, out=squares[begin:end])
            else:
                quarters = matrix.reshape(-1, 4, ROW // 4)
                np.matmul(np.vecdot(quarters, quarters), _FOUR, out=squares[begin:end])
        np.copyto(sums, squares)


def sum_of_squares_in_float32(
    parts: Sequence[Array], sum_rows: SumRows = rows_in_float32, widen: Widen = widen_arrays, threads: int = 1
) -> Sum:
    """The sum of the squares of the elements of flat arrays; in float64 where float32 is not exact enough."""
    sizes = [part.size for part in parts]
    total = _sum_without_bias(parts, sizes, sum_rows, widen, threads) if sum(sizes) >= _LARGE else None
    return Sum(sum_of_squares_in_float64(parts, sizes, widen)) if total is None else total


def _sum_without_bias(
    parts: Sequence[Array], sizes: Sequence[int], sum_rows: SumRows, widen: Widen, threads: int
) -> Sum | None:
    """None if float32 cannot be trusted with these elements."""
    size = sum(sizes)
    matrices = [part[: each // ROW * ROW].reshape(-1, ROW) for part, each in zip(parts, sizes, strict=True)]
    bounds = list(itertools.accumulate([each // ROW for each in sizes], initial=0))
    sums = np.empty(bounds[-1])

    def work(start: int, stop: int) -> None:
        sum_rows(matrices[start:stop], sums[bounds[start] : bounds[stop]])

    # More threads would wait for Python's lock.
    spread(work, sizes, min(threads, size // len(sizes) // _SHARE))
    running = np.cumsum(sums)
    total = float(running[-1])
    # Far from where squares underflow, also if what is subnormal is flushed to zero.
    if not size * 2.0**-96 < total < 2.0**127:
        return None
    for sample in sorted({min(max(_LEAST, sums.size // _ONE_IN), _MOST), _MOST}):
        drawn = np.searchsorted(running, _places(sample) * total, "right")
        bias, standard_error = _bias(sums[drawn], _rows_in_float64(parts, bounds, drawn, widen))
        if standard_error <= _STANDARD_ERROR:
            rests = [part[each // ROW * ROW :] for part, each in zip(parts, sizes, strict=True) if each % ROW]
            rest = sum_of_squares_in_float64(rests, [part.size for part in rests], widen)
            return Sum(total / (1 + bias) + rest, _STANDARD_ERRORS * standard_error * total)
    return None


def _rows_in_float64(parts: Sequence[Array], bounds: Sequence[int], drawn: Array, widen: Widen) -> Array:
    """The sums of the squares of rows that are drawn, by their numbers; `bounds` are those of each part's first row."""
    owners = np.searchsorted(bounds, drawn, "right") - 1
    begins = (drawn - np.asarray(bounds)[owners]) * ROW
    places = zip(owners.tolist(), begins.tolist(), strict=True)
    with borrowed(drawn.size * ROW, np.float64) as elements:
        widen([parts[owner][begin : begin + ROW] for owner, begin in places], elements)
        rows = elements.reshape(-1, ROW)
        sums: Array = np.vecdot(rows, rows)
        return sums


def _bias(sums: Array, exact: Array) -> tuple[float, float]:
    """The mean of the relative errors of some sums, and its standard error."""
    errors = sums / exact - 1
    bias = float(np.sum(errors)) / errors.size
    errors -= bias
    return bias, math.sqrt(float(np.dot(errors, errors))) / errors.size


@lru_cache
def _places(count: int) -> Array:
    """A random number from each of so many equal intervals of 0 to 1; the seed makes them the same each time."""
    places: Array = (np.arange(count) + np.random.default_rng(20261121).random(count)) / count
    return places
