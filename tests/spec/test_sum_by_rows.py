"""Sums of rows in float32 that err by known amounts: what leans one way is taken off, or the sum is not trusted."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from gradclip_spec import _rows

SIZE = 1 << 20
#: The most that one rounding can change a float32, relative to it.
ROUNDING = 2.0**-24
#: The mean error of all rows is told by that of 128 or more that are drawn. One row's, a rounding and the lean or
#: not, has a standard deviation below `ROUNDING`; the mean of 128 has an eleventh of it, and is hardly ever farther
#: off than four times that.
BOUND = 4 / 11 * ROUNDING
ROW = 512
#: A sum of so many squares in float64, however it is ordered.
EXACT = SIZE * 2.0**-53


class Erring:
    """Sums rows in float32, one row in so many off by `lean` of itself."""

    def __init__(self, period: int, lean: float) -> None:
        self.period, self.lean, self.seen = period, lean, 0

    def __call__(self, rows: Any) -> Any:
        sums = np.sum(np.square(rows, dtype=np.float64), axis=1)
        numbers = self.seen + np.arange(len(sums))
        self.seen += len(sums)
        return np.where(numbers % self.period, sums, sums * (1 + self.lean)).astype(np.float32)


@pytest.fixture(params=[SIZE, 1 << 16])
def error(request: pytest.FixtureRequest) -> Any:
    """By how much of itself a sum is wrong, of elements that are read in parts of one size or another."""
    random = np.random.default_rng(1)
    values = (random.standard_normal(SIZE) * np.repeat(random.uniform(0.5, 2, SIZE >> 8), 1 << 8)).astype(np.float32)
    exact = float(np.sum(np.square(values, dtype=np.float64)))
    parts = np.split(values, SIZE // request.param)

    def of(period: int, lean: float) -> float:
        sizes = [part.size for part in parts]
        return _rows.sum_by_rows(sizes, lambda: lambda index: parts[index], 1, Erring(period, lean)) / exact - 1

    return of


@pytest.mark.parametrize("period", [1, 2, 3, 4, 7, 8, 16])
def test_errors_that_lean_one_way_are_taken_off(error: Any, period: int) -> None:
    for lean in (ROUNDING, -ROUNDING):
        assert abs(error(period, lean)) <= BOUND


@pytest.mark.parametrize("drawn", range(128, 145))
def test_rows_are_not_drawn_at_equal_distances(drawn: int) -> None:
    # Of rows of one sum, so many would be every sixteenth.
    ones = np.ones(16 * drawn * ROW, np.float32)
    for period, lean in product((2, 4, 8, 16), (2 * ROUNDING, -2 * ROUNDING)):
        total = _rows.sum_by_rows([ones.size], lambda: lambda index: ones, 1, Erring(period, lean))

        assert abs(total / ones.size - 1) <= BOUND


@pytest.mark.parametrize("period", [2, 3, 4, 7, 8, 16])
def test_sums_that_lean_far_are_not_trusted(error: Any, period: int) -> None:
    # Of errors so large, what some rows tell of the others is off by more than the bound.
    for lean in (2.0**-14, -(2.0**-14)):
        assert abs(error(period, lean)) <= EXACT


@pytest.mark.parametrize("parts", [1, 8])
def test_the_few_rows_that_hold_the_sum_decide_how_far_it_leans(parts: int) -> None:
    # One row in a hundred holds nearly all of it, and only these rows err.
    values = np.where(np.arange(SIZE) // ROW % 100 == 7, 1.0, 1e-6).astype(np.float32)
    heavy = values[::ROW] == 1

    def erring(rows: Any) -> Any:
        sums = np.sum(np.square(rows, dtype=np.float64), axis=1)
        return np.where(sums > 1, sums * (1 + 2.0**-23), sums).astype(np.float32)

    pieces = np.split(values, parts)
    total = _rows.sum_by_rows([piece.size for piece in pieces], lambda: lambda index: pieces[index], 1, erring)

    assert np.count_nonzero(heavy) > 20
    assert abs(total / float(np.sum(np.square(values, dtype=np.float64))) - 1) <= BOUND


@pytest.mark.parametrize("place", [0, 7, 15])
def test_a_part_that_outweighs_all_others_is_summed_again(place: int) -> None:
    # Of it few rows are drawn, and whether these err or not says little of the others.
    pieces = np.split(np.random.default_rng(2).standard_normal(SIZE).astype(np.float32), 16)
    pieces[place] = pieces[place] * np.float32(1000)
    exact = sum(float(np.sum(np.square(piece, dtype=np.float64))) for piece in pieces)
    for period in (2, 3, 5):
        lean = 2 * ROUNDING
        total = _rows.sum_by_rows([piece.size for piece in pieces], lambda: pieces.__getitem__, 1, Erring(period, lean))

        assert abs(total / exact - 1) <= ROUNDING / 16
