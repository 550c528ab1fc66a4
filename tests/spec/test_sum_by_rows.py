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
#: The mean error of all rows is told by that of 256 or more that are drawn. One row's, a rounding and the lean or
#: not, has a standard deviation below `ROUNDING`; the mean of 256 has a sixteenth of it, and is hardly ever farther
#: off than four times that.
BOUND = 4 / 16 * ROUNDING
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
def error(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """By how much of itself a sum is wrong, of elements that are read in parts of one size or another."""
    random = np.random.default_rng(1)
    values = (random.standard_normal(SIZE) * np.repeat(random.uniform(0.5, 2, SIZE >> 8), 1 << 8)).astype(np.float32)
    exact = float(np.sum(np.square(values, dtype=np.float64)))
    parts = np.split(values, SIZE // request.param)

    def of(period: int, lean: float) -> float:
        monkeypatch.setattr(_rows, "_in_float32", Erring(period, lean))
        return _rows.sum_by_rows([part.size for part in parts], lambda: lambda index: parts[index], 1) / exact - 1

    return of


@pytest.mark.parametrize("period", [1, 2, 3, 4, 7, 8, 16])
def test_errors_that_lean_one_way_are_taken_off(error: Any, period: int) -> None:
    for lean in (ROUNDING, -ROUNDING):
        assert abs(error(period, lean)) <= BOUND


@pytest.mark.parametrize("drawn", range(256, 273))
def test_rows_are_not_drawn_at_equal_distances(drawn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of rows of one sum, so many would be every sixteenth.
    ones = np.ones(16 * drawn * 256, np.float32)
    for period, lean in product((2, 4, 8, 16), (2 * ROUNDING, -2 * ROUNDING)):
        monkeypatch.setattr(_rows, "_in_float32", Erring(period, lean))
        total = _rows.sum_by_rows([ones.size], lambda: lambda index: ones, 1)

        assert abs(total / ones.size - 1) <= BOUND


@pytest.mark.parametrize("period", [2, 3, 4, 7, 8, 16])
def test_sums_that_lean_far_are_not_trusted(error: Any, period: int) -> None:
    # Of errors so large, what some rows tell of the others is off by more than the bound.
    for lean in (2.0**-14, -(2.0**-14)):
        assert abs(error(period, lean)) <= EXACT


@pytest.mark.parametrize("parts", [1, 8])
def test_the_few_rows_that_hold_the_sum_decide_how_far_it_leans(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # One row in a hundred holds nearly all of it, and only these rows err.
    values = np.where(np.arange(SIZE) // 256 % 100 == 7, 1.0, 1e-6).astype(np.float32)
    heavy = values[::256] == 1

    def erring(rows: Any) -> Any:
        sums = np.sum(np.square(rows, dtype=np.float64), axis=1)
        return np.where(sums > 1, sums * (1 + 2.0**-23), sums).astype(np.float32)

    monkeypatch.setattr(_rows, "_in_float32", erring)
    pieces = np.split(values, parts)
    total = _rows.sum_by_rows([piece.size for piece in pieces], lambda: lambda index: pieces[index], 1)

    assert np.count_nonzero(heavy) > 40
    assert abs(total / float(np.sum(np.square(values, dtype=np.float64))) - 1) <= BOUND
