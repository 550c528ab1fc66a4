"""Sums of rows in float32 that err by known amounts: what leans one way is taken off, or the sum is not trusted."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from gradclip_spec import _rows

SIZE = 1 << 20
ROW = 1024
#: The most that one rounding can change a float32, relative to it.
ROUNDING = 2.0**-24
#: The mean error of all rows is told by that of 128 that are drawn. One row's, a rounding and the lean or not, has a
#: standard deviation below `ROUNDING`; the mean of 128 has an eleventh of it, and is hardly ever farther off than four
#: times that.
BOUND = 4 / 11 * ROUNDING
#: A sum of so many squares in float64, however it is ordered.
EXACT = SIZE * 2.0**-53


class Erring:
    """Sums rows in float32, one row in so many off by `lean` of itself."""

    def __init__(self, period: int, lean: float) -> None:
        self.period, self.lean, self.seen = period, lean, 0

    def __call__(self, matrices: Any, sums: Any) -> None:
        rows = np.concatenate(matrices)
        exact = np.sum(np.square(rows, dtype=np.float64), axis=1)
        numbers = self.seen + np.arange(len(rows))
        self.seen += len(rows)
        sums[:] = np.where(numbers % self.period, exact, exact * (1 + self.lean))


@pytest.fixture(params=["one part", "even parts", "uneven parts"])
def error(request: pytest.FixtureRequest) -> Any:
    """By how much of itself a sum is wrong, of elements that are read in parts of one size or another."""
    random = np.random.default_rng(1)
    values = (random.standard_normal(SIZE) * np.repeat(random.uniform(0.5, 2, SIZE >> 8), 1 << 8)).astype(np.float32)
    exact = float(np.sum(np.square(values, dtype=np.float64)))
    cuts = {"one part": 1, "even parts": 16, "uneven parts": np.cumsum(random.integers(1, 60_000, 30))}
    parts = np.split(values, cuts[request.param])

    def of(period: int, lean: float) -> float:
        return _rows.sum_by_rows(parts, Erring(period, lean)) / exact - 1

    return of


@pytest.mark.parametrize("period", [1, 2, 3, 4, 7, 8, 16])
def test_errors_that_lean_one_way_are_taken_off(error: Any, period: int) -> None:
    for lean in (ROUNDING, -ROUNDING):
        assert abs(error(period, lean)) <= BOUND


def test_however_far_all_rows_lean_alike(error: Any) -> None:
    for lean in (2.0**-14, -(2.0**-14)):
        assert abs(error(1, lean)) <= BOUND


@pytest.mark.parametrize("drawn", range(128, 145))
def test_rows_are_not_drawn_at_equal_distances(drawn: int) -> None:
    # Of rows of one sum, so many would be every sixteenth.
    ones = np.ones(16 * drawn * ROW, np.float32)
    for period, lean in product((2, 4, 8, 16), (2 * ROUNDING, -2 * ROUNDING)):
        total = _rows.sum_by_rows([ones], Erring(period, lean))

        assert abs(total / ones.size - 1) <= BOUND


@pytest.mark.parametrize("period", [2, 3, 4, 7, 8, 16])
def test_errors_too_unlike_each_other_are_not_trusted(error: Any, period: int) -> None:
    # Of errors so large, what some rows tell of the others is off by more than the bound.
    for lean in (2.0**-14, -(2.0**-14)):
        assert abs(error(period, lean)) <= EXACT


@pytest.mark.parametrize("parts", [1, 8])
def test_the_few_rows_that_hold_the_sum_decide_how_far_it_leans(parts: int) -> None:
    # One row in fifty holds nearly all of it, and only these rows err.
    values = np.where(np.arange(SIZE) // ROW % 50 == 7, 1.0, 1e-6).astype(np.float32)
    heavy = values[::ROW] == 1

    def erring(matrices: Any, sums: Any) -> None:
        exact = np.sum(np.square(np.concatenate(matrices), dtype=np.float64), axis=1)
        sums[:] = np.where(exact > 1, exact * (1 + 2.0**-23), exact)

    total = _rows.sum_by_rows(np.split(values, parts), erring)

    assert np.count_nonzero(heavy) > 20
    assert abs(total / float(np.sum(np.square(values, dtype=np.float64))) - 1) <= BOUND


@pytest.mark.parametrize("place", [0, 7, 15])
def test_a_part_that_outweighs_all_others_decides(place: int) -> None:
    pieces = np.split(np.random.default_rng(2).standard_normal(SIZE).astype(np.float32), 16)
    pieces[place] = pieces[place] * np.float32(1000)
    exact = sum(float(np.sum(np.square(piece, dtype=np.float64))) for piece in pieces)
    for period in (2, 3, 5):
        total = _rows.sum_by_rows(pieces, Erring(period, ROUNDING))

        assert abs(total / exact - 1) <= BOUND


@pytest.mark.parametrize("factor", [1e-30, 1e25])
def test_sums_that_float32_cannot_hold_are_made_in_float64(factor: float) -> None:
    values = np.random.default_rng(3).standard_normal(SIZE).astype(np.float32) * np.float32(factor)

    exact = float(np.sum(np.square(values, dtype=np.float64)))
    with np.errstate(all="ignore"):
        assert abs(_rows.sum_by_rows([values]) / exact - 1) <= EXACT


@pytest.mark.parametrize(
    "sizes", [[], [0], [1], [70_000, 3, 200_000], [1] * 200_000, [65_536] * 3, [65_535, 2, 65_536]]
)
def test_exact_sums_count_each_element_once(sizes: list[int]) -> None:
    # Whole numbers, whose squares and sums are exact in any order.
    values = np.arange(sum(sizes), dtype=np.float32) % 1000
    arrays = np.split(values, np.cumsum(sizes)[:-1]) if sizes else []

    assert _rows.exact_sum(arrays, sizes) == np.sum(values.astype(np.int64) ** 2)
