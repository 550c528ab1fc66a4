"""Compare the integers of long arrays with Python's own, and with the same elements decoded one by one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from gradclip_adapters.contract import DTYPES
from gradclip_conformance.oracle.arrays import LONG, decode
from gradclip_conformance.oracle.formats import FORMATS, decode_doubles
from gradclip_conformance.oracle.integers import compute_norm
from gradclip_conformance.oracle.long_integers import BLOCK, LongIntegers
from gradclip_conformance.oracle.model import DyadicArray, ExpectedArray
from gradclip_conformance.oracle.predict import _clip_by_value


def draw_all_magnitudes(dtype: str, size: int) -> bytes:
    """Return finite numbers of both signs, drawn by their bit patterns."""
    form, generator = FORMATS[dtype], np.random.default_rng(1)
    bits = generator.integers(0, form.infinity_bits, size, dtype=np.uint64)
    bits |= np.uint64(form.sign_bit) * generator.integers(0, 2, size, dtype=np.uint64)
    return bits.astype(DTYPES[dtype]).tobytes()


def decode_long(data: bytes, dtype: str) -> tuple[DyadicArray, LongIntegers]:
    """Return a long array, and its integers."""
    exact = decode(data, dtype)
    assert isinstance(exact.integers, LongIntegers)
    return exact, exact.integers


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("size", [LONG, BLOCK + 500])
def test_sums_of_squares_and_zeros_are_those_of_python(size: int, dtype: str) -> None:
    data = draw_all_magnitudes(dtype, size)
    exact, integers = decode_long(data, dtype)
    each = list(integers)

    assert integers.add_squares() == sum(one * one for one in each)
    assert integers.count(0) == each.count(0)
    bits = 0
    for one in each:
        bits |= abs(one)
    assert integers.count_common_zeros() == (bits & -bits).bit_length() - 1
    assert np.array_equal(exact.doubles, decode_doubles(data, dtype))
    places = [size - 1, 0, 100]
    taken = list(exact.take_places(places).integers)
    assert taken == [each[place] for place in places] == [integers[place] for place in places]


@pytest.mark.parametrize("dtype", FORMATS)
def test_long_array_holds_the_elements_that_short_ones_hold(dtype: str) -> None:
    data, step = draw_all_magnitudes(dtype, 2 * LONG), LONG * FORMATS[dtype].width // 16
    short = [decode(data[start : start + step], dtype) for start in range(0, len(data), step)]
    long = decode(data, dtype)

    assert len(short) == 4
    assert all(isinstance(part.integers, list) for part in short)
    assert long.list_fractions() == [fraction for part in short for fraction in part.list_fractions()]
    assert list(long.negative) == [sign for part in short for sign in part.negative]
    assert compute_norm([long]) == compute_norm(short)


def test_sum_of_full_significands_is_exact() -> None:
    full = float(np.nextafter(2.0, 1.0))
    exact, _ = decode_long(np.full(2 * BLOCK, full).tobytes(), "float64")

    assert compute_norm([exact]).power == 2 * BLOCK * Fraction(full) ** 2


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize(
    ("low", "high"),
    [(-1.0, 1.0), (0.1, 3.0), (-5.0, -(2.0**-30)), (0.0, 2.0**-1074), (-1e300, 1e-300), (-math.inf, 0.5)],
)
def test_long_array_is_clipped_by_value_as_short_ones_are(low: float, high: float, dtype: str) -> None:
    form, step = FORMATS[dtype], LONG * FORMATS[dtype].width // 16
    special = [0, form.sign_bit, form.infinity_bits, form.infinity_bits | form.sign_bit, form.infinity_bits + 1]
    data = draw_all_magnitudes(dtype, 2 * LONG - len(special))
    data += np.array(special, dtype=np.uint64).astype(DTYPES[dtype]).tobytes()
    long = _clip_by_value(decode(data, dtype), low, high)
    short = [_clip_by_value(decode(data[i : i + step], dtype), low, high) for i in range(0, len(data), step)]

    assert isinstance(long.values.integers, LongIntegers)
    assert list_elements(long) == [element for part in short for element in list_elements(part)]


def list_elements(expected: ExpectedArray) -> list[str]:
    """Return the elements as texts, because NaN differs from itself."""
    return [str(expected.values.special.get(i, one)) for i, one in enumerate(expected.list_fractions())]


def test_array_of_zeros_is_zero() -> None:
    exact, integers = decode_long(np.full(LONG, -0.0).tobytes(), "float64")

    assert compute_norm([exact]).upper == 0
    assert integers.count(0) == LONG
    assert not np.any(exact.doubles)
    assert all(exact.negative)
