"""Sums of rows in float32 that err by known amounts: what leans one way is taken off, or the sum is not trusted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradclip_spec import _numpy

SIZE = 1 << 20
#: The most that one rounding can change a float32, relative to it.
ROUNDING = 2.0**-24


class Erring:
    """Sums rows in float32, and one row in so many off by `lean` of itself."""

    def __init__(self, period: int, lean: float) -> None:
        self.period, self.lean, self.seen = period, lean, 0

    def __call__(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        numbers = self.seen + np.arange(len(rows))
        self.seen += len(rows)
        sums = np.sum(np.square(rows, dtype=np.float64), axis=1)
        erring: np.ndarray[Any, Any] = np.where(numbers % self.period, sums, sums * (1 + self.lean))
        return erring.astype(np.float32)


def error(period: int, lean: float, piece: int) -> float | None:
    """By how much of itself the sum is wrong, or None if it is not given."""
    random = np.random.default_rng(1)
    values = (random.standard_normal(SIZE) * np.repeat(random.uniform(0.5, 2, SIZE >> 8), 1 << 8)).astype(np.float32)
    exact = float(np.sum(np.square(values, dtype=np.float64)))
    pieces = [values[start : start + piece] for start in range(0, SIZE, piece)]
    total = _numpy.sum_by_rows(pieces, SIZE, Erring(period, lean))
    return None if total is None else total / exact - 1


#: The mean error of all rows is told by that of 256 or more that are drawn. One row's, a rounding and the lean or
#: not, has a standard deviation below `ROUNDING`; the mean of 256 has a sixteenth of it, and is hardly ever farther
#: off than four times that.
BOUND = 4 / 16 * ROUNDING


@pytest.mark.parametrize("piece", [SIZE, 1 << 16])
@pytest.mark.parametrize("period", [1, 2, 3, 4, 7, 8, 16])
def test_errors_that_lean_one_way_are_taken_off(period: int, piece: int) -> None:
    for lean in (ROUNDING, -ROUNDING):
        found = error(period, lean, piece)

        assert found is not None
        assert abs(found) <= BOUND


@pytest.mark.parametrize("period", [2, 3, 4, 7, 8, 16])
def test_sums_that_lean_far_are_not_trusted(period: int) -> None:
    # Of errors so large, what some rows tell of the others is off by more than the bound.
    found = [error(period, lean, piece) for lean in (2.0**-14, -(2.0**-14)) for piece in (SIZE, 1 << 16)]

    assert found == [None] * 4
