"""Sums of rows in float32 that err by known amounts: what leans one way is taken off, or the sum is not trusted."""

from __future__ import annotations

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
    """Sums rows in float32, one row in so many off by `lean` of itself; in float64 all are right."""

    def __init__(self, period: int, lean: float) -> None:
        self.period, self.lean, self.seen = period, lean, 0

    def __call__(self, one: Any, other: Any, out: Any = None) -> Any:
        sums = np.sum(np.multiply(one, other, dtype=np.float64), axis=-1)
        if one.dtype == np.float64:
            return sums
        numbers = self.seen + np.arange(len(sums))
        self.seen += len(sums)
        erring = np.where(numbers % self.period, sums, sums * (1 + self.lean)).astype(np.float32)
        out[...] = erring
        return out


@pytest.fixture(params=[SIZE, 1 << 16])
def error(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """By how much of itself a sum is wrong, of elements that are read in parts of one size or another."""
    random = np.random.default_rng(1)
    values = (random.standard_normal(SIZE) * np.repeat(random.uniform(0.5, 2, SIZE >> 8), 1 << 8)).astype(np.float32)
    exact = float(np.sum(np.square(values, dtype=np.float64)))
    parts = np.split(values, SIZE // request.param)

    def of(period: int, lean: float) -> float:
        monkeypatch.setattr(np, "vecdot", Erring(period, lean))
        return _rows.sum_by_rows([part.size for part in parts], lambda: lambda index: parts[index], 1) / exact - 1

    return of


@pytest.mark.parametrize("period", [1, 2, 3, 4, 7, 8, 16])
def test_errors_that_lean_one_way_are_taken_off(error: Any, period: int) -> None:
    for lean in (ROUNDING, -ROUNDING):
        assert abs(error(period, lean)) <= BOUND


@pytest.mark.parametrize("period", [2, 3, 4, 7, 8, 16])
def test_sums_that_lean_far_are_not_trusted(error: Any, period: int) -> None:
    # Of errors so large, what some rows tell of the others is off by more than the bound.
    for lean in (2.0**-14, -(2.0**-14)):
        assert abs(error(period, lean)) <= EXACT
