"""Sums of squares at the speed of float32, with the errors of float64.

The squares of each row of some hundred elements are summed in float32, and these sums in float64. The rounding errors
of some hundred rows and more cancel, but for what they lean one way: those of float16 and bfloat16 elements do a
little, those of rows that are alike a lot. How far they lean is seen in some of the rows, which are summed again in
float64, and taken off. The sums are not trusted if they lean far, if one row outweighs the others, or if squares left
the range of float32.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gradclip_spec._threads import spread

__all__ = ["exact_sum", "sum_by_rows"]

Array = np.ndarray[Any, Any]

#: From this many elements on there are rows enough.
_LARGE = 1 << 17
#: Elements that are converted to float64 at a time: the buffer stays in the first two caches, and is too small for
#: BLAS to start threads, which wait for each other far longer than the sum takes when the machine is busy.
_CHUNK = 1 << 13
_ROW = 256
#: So many rows are summed again.
_SAMPLE = 256


#: Called once in each thread; what it returns reads the part of an index as a flat array, which the next may overwrite.
Reader = Callable[[], Callable[[int], Array]]


def sum_by_rows(sizes: Sequence[int], reader: Reader, threads: int) -> float:
    """The sum of the squares of float32 elements, read in parts of these sizes, each of thousands if there are many."""
    total = _sum_by_rows(sizes, reader, threads) if sum(sizes) >= _LARGE else None
    return exact_sum(sizes, reader, threads) if total is None else total


def exact_sum(sizes: Sequence[int], reader: Reader, threads: int) -> float:
    """The same in float64, which holds the square of any narrower float exactly."""
    sums = np.zeros(len(sizes))

    def work(begin: int, end: int) -> None:
        read, wide = reader(), np.empty(_CHUNK)
        for index in range(begin, end):
            flat = read(index)
            for start in range(0, flat.size, _CHUNK):
                chunk = flat[start : start + _CHUNK]
                # Unsafe in name only: the dtypes of ml_dtypes register no cast to float64 as safe.
                np.copyto(wide[: chunk.size], chunk, casting="unsafe")
                sums[index] += np.dot(wide[: chunk.size], wide[: chunk.size])

    spread(work, sizes, threads)
    return float(np.sum(sums))


def _sum_by_rows(sizes: Sequence[int], reader: Reader, threads: int) -> float | None:
    """None if float32 cannot be trusted with these elements."""
    starts = list(itertools.accumulate([size // _ROW for size in sizes], initial=0))
    chosen = _anywhere(starts[-1])
    bounds = np.searchsorted(chosen, starts).tolist()
    sums, rest = np.empty(starts[-1], np.float32), np.zeros(len(sizes))
    sample = np.empty((chosen.size, _ROW), np.float32)

    def work(begin: int, end: int) -> None:
        read = reader()
        for index in range(begin, end):
            flat = read(index)
            start, stop = starts[index], starts[index + 1]
            whole = (stop - start) * _ROW
            rows = flat[:whole].reshape(-1, _ROW)
            np.vecdot(rows, rows, out=sums[start:stop])
            first, last = bounds[index], bounds[index + 1]
            if first < last:
                sample[first:last] = rows[chosen[first:last] - start]
            if whole < flat.size:
                tail = flat[whole:].astype(np.float64)
                rest[index] = np.dot(tail, tail)

    spread(work, sizes, threads)
    total = float(np.sum(sums, dtype=np.float64))
    in_range = sums.size * _ROW * 2.0**-120 < total < 2.0**127
    if not in_range or float(sums.max()) * 64 > total:
        return None
    wide = sample.astype(np.float64)
    lean = _lean(sums[chosen], np.vecdot(wide, wide))
    if abs(lean) > 2.0**-23:
        return None
    return total - lean * total + float(np.sum(rest))


@lru_cache
def _fractions() -> Array:
    return np.random.default_rng(20261121).random(_SAMPLE)


def _anywhere(count: int) -> Array:
    """Numbers of some rows: not at equal distances, because such rows are too often alike; the same each time."""
    return ((np.arange(_SAMPLE) + _fractions()) * (count / _SAMPLE)).astype(np.intp)


def _lean(sums: Array, exact: Array) -> float:
    """The mean relative error of sums of squares of rows; infinity if nearly all rows are zero."""
    # Heavy rows count no more than four others: their errors are as large as any, and no more alike.
    weights = np.minimum(exact, 4 * float(np.mean(exact)))
    if np.count_nonzero(weights) * 16 < weights.size:
        return np.inf
    errors = np.divide(sums - exact, exact, out=np.zeros_like(exact), where=exact > 0)
    return float(np.vecdot(errors, weights) / np.sum(weights))
