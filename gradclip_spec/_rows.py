"""Sums of squares at the speed of float32, with the errors of float64.

The squares of each row of some hundred elements are summed in float32, and these sums in float64. The rounding errors
of some hundred rows and more cancel, but for what they lean one way: those of float16 and bfloat16 elements do a
little, those of rows that are alike a lot. How far they lean is seen in some of the rows, which are summed again in
float64, and taken off. A row is drawn the more likely the larger its sum is, so that the mean relative error of those
drawn is that of the whole sum, however unlike the rows are. A part of the elements on which too much depends for the
rows drawn of it is summed in float64 itself; and everything is, if the sums lean far or left the range of float32.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gradclip_spec._threads import spread

__all__ = ["exact_sum", "in_float32", "sum_by_rows"]

Array = np.ndarray[Any, Any]

#: From this many elements on there are rows enough.
_LARGE = 1 << 17
#: Elements that are converted to float64 at a time: the buffer stays in the first two caches, and is too small for
#: BLAS to start threads, which wait for each other far longer than the sum takes when the machine is busy.
_CHUNK = 1 << 13
_ROW = 512
#: Elements of a part that is worth a thread's while, if others are as large.
_SHARE = 1 << 18
#: A part with more than one in so many of the sum, times the root of the number of rows drawn of it, is summed again.
_ALONE = 10
#: So many rows are summed again, and one more of each part.
_SAMPLE = 128


#: Called once in each thread; what it returns reads the part of an index as a flat array, which the next may overwrite.
Reader = Callable[[], Callable[[int], Array]]


def in_float32(rows: Array) -> Array:
    """The sums of the squares of the rows of a matrix."""
    sums: Array = np.vecdot(rows, rows)
    return sums


def sum_by_rows(
    sizes: Sequence[int], reader: Reader, threads: int, of_rows: Callable[[Array], Array] = in_float32
) -> float:
    """The sum of the squares of float32 elements, read in parts of these sizes, each of thousands if there are many."""
    total = _sum_by_rows(sizes, reader, threads, of_rows) if sum(sizes) >= _LARGE else None
    return exact_sum(sizes, reader) if total is None else total


def exact_sum(sizes: Sequence[int], reader: Reader) -> float:
    """The same in float64, which holds the square of any narrower float exactly."""
    read = reader()
    return math.fsum(_exactly(read(index)) for index in range(len(sizes)))


def _exactly(flat: Array) -> float:
    total, wide = 0.0, np.empty(min(flat.size, _CHUNK))
    for start in range(0, flat.size, _CHUNK):
        chunk = flat[start : start + _CHUNK]
        # Unsafe in name only: the dtypes of ml_dtypes register no cast to float64 as safe.
        np.copyto(wide[: chunk.size], chunk, casting="unsafe")
        total += float(np.dot(wide[: chunk.size], wide[: chunk.size]))
    return total


def _sum_by_rows(sizes: Sequence[int], reader: Reader, threads: int, of_rows: Callable[[Array], Array]) -> float | None:
    """None if float32 cannot be trusted with these elements."""
    size = sum(sizes)
    counts = [1 + _SAMPLE * each // size for each in sizes]
    bounds = list(itertools.accumulate(counts, initial=0))
    places = _places(counts)
    totals, rests = np.zeros(len(sizes)), np.zeros(len(sizes))
    drawn, sample = np.zeros(bounds[-1], np.float32), np.zeros((bounds[-1], _ROW), np.float32)

    def work(begin: int, end: int) -> None:
        read = reader()
        for index in range(begin, end):
            flat = read(index)
            count = flat.size // _ROW
            if count:
                rows = flat[: count * _ROW].reshape(-1, _ROW)
                sums = of_rows(rows)
                running = sums.cumsum(dtype=np.float64)
                totals[index] = total = running[-1]
                here = slice(bounds[index], bounds[index + 1])
                some = running.searchsorted(places[here] * total, "right")
                if some[-1] == count:
                    # Where the sum is not a number, there are no such rows.
                    some.fill(0)
                drawn[here], sample[here] = sums[some], rows[some]
            if flat.size > count * _ROW:
                rests[index] = _exactly(flat[count * _ROW :])

    # Of small parts, threads would wait longer for Python's lock than they work.
    spread(work, sizes, threads if size >= len(sizes) * _SHARE else 1)
    total = float(np.sum(totals))
    if not size * 2.0**-120 < total < 2.0**127:
        return None
    wide = sample.astype(np.float64)
    exact = np.vecdot(wide, wide)
    leans = np.divide(drawn - exact, exact, out=np.zeros_like(exact), where=exact > 0)
    errors = np.add.reduceat(leans, bounds[:-1]) / counts * totals
    if abs(float(np.sum(errors))) > 2.0**-23 * total:
        return None
    totals += rests - errors
    for index in np.flatnonzero(totals > np.sqrt(counts) * (total / _ALONE)).tolist():
        # Too much depends on the few rows that were drawn of this part.
        totals[index] = _exactly(reader()(index))
    return float(np.sum(totals))


def _places(counts: Sequence[int]) -> Array:
    """For each part, one number from 0 to 1 in each of so many intervals: at no equal distances, each time the same."""
    starts = np.repeat(np.cumsum([0, *counts[:-1]]), counts)
    indices = np.arange(len(starts))
    places: Array = (indices - starts + _fractions()[indices % _SAMPLE]) / np.repeat(counts, counts)
    return places


@lru_cache
def _fractions() -> Array:
    return np.random.default_rng(20261121).random(_SAMPLE)
