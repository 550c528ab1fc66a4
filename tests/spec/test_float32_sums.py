"""Sums of rows in float32 that err by known amounts: their bias is taken off, or the sum is not trusted."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from gradclip_spec import _float32_sums, _float64_sums

SIZE = 1 << 20
ROW = _float32_sums.ROW
#: Rows that are drawn.
SAMPLE = _float32_sums._LEAST
#: The most that one rounding can change a float32, relative to it.
ROUNDING = 2.0**-24
#: The bias is estimated from the rows that are drawn. The error of one, a rounding or none, has a standard deviation of
#: half of `ROUNDING` at the most; that of the mean is smaller by the root of their number, and the mean is hardly ever
#: farther off than four times that.
BOUND = 4 * ROUNDING / 2 / SAMPLE**0.5
#: A sum of so many squares in float64, however it is ordered.
EXACT = SIZE * 2.0**-53


def sums_of_rows(matrices: Any) -> Any:
    """The sums of the squares of each row, as exact as float64 makes them."""
    rows = np.concatenate(matrices).reshape(-1, ROW)
    return np.sum(np.square(rows, dtype=np.float64), axis=1)


class Erring:
    """Sums rows, one in so many off by `bias` of itself."""

    def __init__(self, period: int, bias: float) -> None:
        self.period, self.bias, self.seen = period, bias, 0

    def __call__(self, matrices: Any, sums: Any) -> None:
        exact = sums_of_rows(matrices)
        numbers = self.seen + np.arange(len(exact))
        self.seen += len(exact)
        sums[:] = np.where(numbers % self.period, exact, exact * (1 + self.bias))


@pytest.fixture(params=["one part", "even parts", "uneven parts"])
def error(request: pytest.FixtureRequest) -> Any:
    """By how much of itself a sum is wrong, of elements that are read in parts of one size or another."""
    random = np.random.default_rng(1)
    values = (random.standard_normal(SIZE) * np.repeat(random.uniform(0.5, 2, SIZE >> 8), 1 << 8)).astype(np.float32)
    exact = float(np.sum(np.square(values, dtype=np.float64)))
    cuts = {"one part": 1, "even parts": 16, "uneven parts": np.cumsum(random.integers(1, 60_000, 30))}
    parts = np.split(values, cuts[request.param])

    def of(period: int, bias: float) -> float:
        total, error = _float32_sums.sum_of_squares_in_float32(parts, Erring(period, bias))
        assert abs(total - exact) <= error + EXACT * exact
        return total / exact - 1

    return of


@pytest.mark.parametrize("period", [1, 2, 3, 4, 7, 8, 16])
def test_the_bias_is_taken_off(error: Any, period: int) -> None:
    for bias in (ROUNDING, -ROUNDING):
        assert abs(error(period, bias)) <= BOUND


def test_however_large_it_is_if_all_rows_have_it(error: Any) -> None:
    for bias in (2.0**-14, -(2.0**-14)):
        assert abs(error(1, bias)) <= BOUND


@pytest.mark.parametrize("bias", [0.0, ROUNDING, 2.0**-14])
def test_only_what_is_drawn_is_read_again_if_rows_err_alike(bias: float) -> None:
    read = []

    def widen(arrays: Any, out: Any) -> None:
        read.append(out.size)
        _float64_sums.widen_arrays(arrays, out)

    values = np.random.default_rng(2).standard_normal(SIZE).astype(np.float32)
    _float32_sums.sum_of_squares_in_float32([values], Erring(1, bias), widen)
    assert sum(read) == SAMPLE * ROW


def test_more_rows_are_drawn_if_their_errors_scatter_more_widely() -> None:
    read = []

    def widen(arrays: Any, out: Any) -> None:
        read.append(out.size)
        _float64_sums.widen_arrays(arrays, out)

    values = np.random.default_rng(2).standard_normal(4 * SIZE).astype(np.float32)
    exact = float(np.sum(np.square(values, dtype=np.float64)))
    # Their standard deviation is two roundings where few rows are enough, and four where more are.
    for bias, samples in ((3.9, 1), (4.1, 2), (7.5, 2)):
        read.clear()
        total, error = _float32_sums.sum_of_squares_in_float32([values], Erring(2, bias * ROUNDING), widen)
        assert [size // ROW for size in read] == [_float32_sums._LEAST, _float32_sums._MOST][:samples]
        assert abs(total / exact - 1) * exact <= error <= 2 * _float32_sums.ERROR_OF_NORM * exact
    read.clear()
    total, error = _float32_sums.sum_of_squares_in_float32([values], Erring(2, 9 * ROUNDING), widen)
    assert (abs(total / exact - 1) <= EXACT, error) == (True, 0)


@pytest.mark.parametrize(("size", "drawn"), [(SIZE, 128), (48 * SIZE, 192), (160 * SIZE, 512)])
def test_of_more_rows_more_are_drawn(size: int, drawn: int) -> None:
    read = []

    def widen(arrays: Any, out: Any) -> None:
        read.append(out.size)
        _float64_sums.widen_arrays(arrays, out)

    # One row, again and again, so that this takes no memory.
    parts = [np.ones(SIZE, np.float32)] * (size // SIZE)
    assert _float32_sums.sum_of_squares_in_float32(parts, widen=widen) == (size, 0)
    assert read == [drawn * ROW]


@pytest.mark.parametrize("rows", [1, 499, 500, 501, 900])
def test_rows_of_numpy_are_summed_in_order(rows: int) -> None:
    # Whole numbers, whose squares and sums are exact in any order.
    matrices = [np.random.default_rng(n).integers(-60, 61, (n, ROW)).astype(np.float32) for n in (rows, 3, rows)]
    sums = np.empty(2 * rows + 3)
    _float32_sums.rows_in_float32(matrices, sums)
    assert np.array_equal(sums, sums_of_rows(matrices))


@pytest.mark.parametrize("rows", [126, 250, 500, 501, 2000])
def test_numpy_is_asked_for_enough_at_once_to_let_other_threads_run(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    vecdot = np.vecdot

    def counted(*arguments: Any, **others: Any) -> Any:
        result = vecdot(*arguments, **others)
        asked.append(result.size)
        return result

    monkeypatch.setattr(np, "vecdot", counted)
    _float32_sums.rows_in_float32([np.ones((rows, ROW), np.float32)] * 3, np.empty(3 * rows))
    # It holds Python's lock for up to 500.
    assert min(asked) > 500


@pytest.mark.parametrize("drawn", range(SAMPLE, SAMPLE + 17))
def test_rows_are_not_drawn_at_equal_distances(drawn: int) -> None:
    # Of rows of one sum, so many would be every sixteenth.
    ones = np.ones(16 * drawn * ROW, np.float32)
    for period, bias in product((2, 4, 8, 16), (2 * ROUNDING, -2 * ROUNDING)):
        total = _float32_sums.sum_of_squares_in_float32([ones], Erring(period, bias)).value

        assert abs(total / ones.size - 1) <= 2 * BOUND


@pytest.mark.parametrize("period", range(2, 14))
def test_rows_at_equal_distances_are_drawn(period: int) -> None:
    # Of rows of one sum, the places are the rows themselves. Beyond every tenth, it is so up to some thousands of rows.
    more = range(4000, 20_000, 3) if period <= 10 else range(0)
    for rows in (*range(SAMPLE, 4000), *more):
        assert len(set((_float32_sums._places(SAMPLE) * rows).astype(int) % period)) == period, rows


@pytest.mark.parametrize("sample", range(SAMPLE, _float32_sums._MOST + 1))
def test_of_many_rows_too(sample: int) -> None:
    rows = sample * _float32_sums._ONE_IN
    for period in range(2, 11):
        assert len(set((_float32_sums._places(sample) * rows).astype(int) % period)) == period


@pytest.mark.parametrize("period", [2, 3, 4, 7, 8, 16])
def test_errors_that_scatter_widely_are_not_trusted(error: Any, period: int) -> None:
    # Of errors so large, what some rows tell of the others is off by more than the bound.
    for bias in (2.0**-14, -(2.0**-14)):
        assert abs(error(period, bias)) <= EXACT


@pytest.mark.parametrize("parts", [1, 8])
def test_the_few_rows_that_hold_the_sum_decide_its_bias(parts: int) -> None:
    # One row in twenty holds nearly all of it, and only these rows err.
    values = np.where(np.arange(SIZE) // ROW % 20 == 7, 1.0, 1e-6).astype(np.float32)
    heavy = values[::ROW] == 1

    def erring(matrices: Any, sums: Any) -> None:
        exact = sums_of_rows(matrices)
        sums[:] = np.where(exact > 0.1, exact * (1 + 2.0**-23), exact)

    total = _float32_sums.sum_of_squares_in_float32(np.split(values, parts), erring).value

    assert np.count_nonzero(heavy) > 20
    assert abs(total / float(np.sum(np.square(values, dtype=np.float64))) - 1) <= BOUND


@pytest.mark.parametrize("place", [0, 7, 15])
def test_a_part_that_outweighs_all_others_decides(place: int) -> None:
    pieces = np.split(np.random.default_rng(2).standard_normal(SIZE).astype(np.float32), 16)
    pieces[place] = pieces[place] * np.float32(1000)
    exact = sum(float(np.sum(np.square(piece, dtype=np.float64))) for piece in pieces)
    for period in (2, 3, 5):
        total = _float32_sums.sum_of_squares_in_float32(pieces, Erring(period, ROUNDING)).value

        assert abs(total / exact - 1) <= BOUND


@pytest.mark.parametrize("factor", [1e-30, 1e25])
def test_sums_that_float32_cannot_hold_are_made_in_float64(factor: float) -> None:
    values = np.random.default_rng(3).standard_normal(SIZE).astype(np.float32) * np.float32(factor)

    exact = float(np.sum(np.square(values, dtype=np.float64)))
    with np.errstate(all="ignore"):
        assert abs(_float32_sums.sum_of_squares_in_float32([values]).value / exact - 1) <= EXACT


@pytest.mark.parametrize(
    "sizes", [[], [0], [1], [70_000, 3, 200_000], [1] * 200_000, [65_536] * 3, [65_535, 2, 65_536]]
)
def test_sums_in_float64_count_each_element_once(sizes: list[int]) -> None:
    # Whole numbers, whose squares and sums are exact in any order.
    values = np.arange(sum(sizes), dtype=np.float32) % 1000
    arrays = np.split(values, np.cumsum(sizes)[:-1]) if sizes else []

    assert _float64_sums.sum_of_squares_in_float64(arrays, sizes) == np.sum(values.astype(np.int64) ** 2)
