"""Compare the first oracle with known answers, its long arrays with short ones, and its distances with fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hand_made import decode_exactly
from hypothesis import given
from hypothesis import strategies as st

from gradclip_adapters.contract import DTYPES
from gradclip_conformance.oracle import distances as bulk
from gradclip_conformance.oracle import integers as exact
from gradclip_conformance.oracle.arrays import LONG, decode, round_elements
from gradclip_conformance.oracle.formats import (
    FORMATS,
    compute_power_of_two,
    decode_bits,
    decode_doubles,
    encode,
    measure_distance,
    next_down,
    round_all,
    round_to,
    ulp,
)
from gradclip_conformance.oracle.formula import Formula, list_nonfinite_norms, predict_nonfinite
from gradclip_conformance.oracle.long_integers import BLOCK, LongIntegers
from gradclip_conformance.oracle.model import DyadicArray, ExpectedArray
from gradclip_conformance.oracle.predict import _clip_by_value


@pytest.mark.parametrize(
    ("values", "p", "result"),
    [
        ([3.0, -4.0], 2.0, 5),
        ([3.0, -4.0], 1.0, 7),
        ([3.0, -4.0], math.inf, 4),
        ([3.0, 4.0, 5.0], 3.0, 6),
        ([1.0, 4.0], 0.5, 9),
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 1.5, 4),
        ([3 * 2.0**600, 4 * 2.0**600], 2.0, 5 * Fraction(2) ** 600),
        ([3 * 2.0**-1074, 4 * 2.0**-1074], 2.0, 5 * compute_power_of_two(-1074)),
        ([3 * 2.0**-1073, 4 * 2.0**-1073, 5 * 2.0**-1073], 3.0, 6 * compute_power_of_two(-1073)),
        ([0.0, -0.0], 2.0, 0),
        ([], 2.0, 0),
        ([], math.inf, 0),
        ([], 2.5, 0),
    ],
)
def test_norm_that_is_rational_is_exact(values: list[float], p: float, result: Fraction) -> None:
    bounds = exact.compute_norm([decode_exactly(*values)], p)

    assert bounds.lower == bounds.upper == result


@pytest.mark.parametrize("p", [0.5, 1.5, 2.0, 2.5, 3.0, 4.0, 7.0, 7.5])
def test_norm_that_is_irrational_is_enclosed(p: float) -> None:
    """Compare powers of the bounds with the same power of the norm, which is an integer."""
    # For |x| = 4 and 9 the powers of half-integer order are integers.
    bounds = exact.compute_norm([decode_exactly(4.0, -9.0)], p)
    power = Fraction(2) ** int(2 * p) + Fraction(3) ** int(2 * p)

    halves = int(2 * p)
    assert bounds.lower**halves <= power**2 <= bounds.upper**halves
    assert bounds.upper - bounds.lower <= bounds.lower / 2**255


@pytest.mark.parametrize("p", [0.0, -1.0, 0.3, math.pi, math.nan, -math.inf])
def test_norm_of_an_unsupported_order_is_an_error(p: float) -> None:
    with pytest.raises(exact.NoExactNormError, match="no exact norm of order"):
        exact.compute_norm([decode_exactly(1.0)], p)


def test_norm_refuses_nonfinite_elements() -> None:
    with pytest.raises(ValueError, match="judge non-finite gradients apart"):
        exact.compute_norm([decode_exactly(1.0, math.nan)])


@pytest.mark.parametrize(
    ("values", "threshold", "side"),
    [
        ([3.0, 4.0], Fraction(5), 0),
        ([3.0, 4.0], Fraction(5) + compute_power_of_two(-2000), -1),
        ([3.0, 4.0], Fraction(5) - compute_power_of_two(-2000), 1),
        # sqrt(1 + 2**-1000) exceeds 1 by about 2**-1001, which 256 bits cannot show.
        ([1.0, 2.0**-500], Fraction(1), 1),
        # The square root of two lies between these two numbers.
        ([1.0, 1.0], Fraction(2**0.5), -1),
        ([1.0, 1.0], Fraction(next_down(2**0.5, "float64")), 1),
        ([0.0], Fraction(0), 0),
        ([0.0], Fraction(-1), 1),
        ([1.0], Fraction(-2), 1),
    ],
)
def test_side_of_the_threshold_is_exact(values: list[float], threshold: Fraction, side: int) -> None:
    assert exact.compare_to_threshold(exact.compute_norm([decode_exactly(*values)]), threshold) == side


@pytest.mark.parametrize(
    ("formula", "threshold", "factor"),
    [
        (Formula("plain"), 2.5, Fraction(1, 2)),
        (Formula("plain"), 5.0, Fraction(1)),
        (Formula("plain"), 0.0, Fraction(0)),
        (Formula("plain"), -5.0, Fraction(-1)),
        (Formula("coefficient", 0.125), 2.0, Fraction(2) / Fraction(5.125)),
        (Formula("coefficient", 0.125), 5.0, Fraction(5) / Fraction(5.125)),
        (Formula("coefficient", 0.125), 5.125, Fraction(1)),
        (Formula("coefficient", 0.125), 6.0, Fraction(1)),
        (Formula("max-denominator", 0.125), 2.0, Fraction(2) / Fraction(5.125)),
        (Formula("max-denominator", 0.125), 8.0, Fraction(8) / Fraction(8.125)),
        (Formula("min-numerator", 0.125), 2.0, Fraction(2) / Fraction(5.125)),
        (Formula("min-numerator", 0.125), 8.0, Fraction(5) / Fraction(5.125)),
        (Formula("plain"), math.inf, Fraction(1)),
        (Formula("coefficient", 0.125), math.inf, Fraction(1)),
        (Formula("max-denominator", 0.125), math.inf, Fraction(1)),
        (Formula("min-numerator", 0.125), math.inf, Fraction(5) / Fraction(5.125)),
    ],
)
def test_clip_by_each_formula_has_the_known_factor(formula: Formula, threshold: float, factor: Fraction) -> None:
    (expected,) = exact.clip_by_global_norm([decode_exactly(3.0, -4.0)], threshold, formula=formula).gradients

    assert expected is not None
    assert expected.list_fractions() == [3 * factor, -4 * factor]
    assert expected.is_unchanged == (factor == 1)


@pytest.mark.parametrize("threshold", [math.nan, -math.inf])
def test_threshold_without_an_expected_result_is_an_error(threshold: float) -> None:
    with pytest.raises(ValueError, match="the oracle was given the threshold"):
        exact.clip_by_global_norm([decode_exactly(1.0)], threshold)


def test_global_norm_leaves_out_excluded_and_missing_gradients() -> None:
    tensors = [decode_exactly(3.0), None, decode_exactly(12.0, math.nan), decode_exactly(-4.0)]
    clipped = exact.clip_by_global_norm(tensors, 2.5, included=[True, True, False, True])

    first, none, excluded, last = clipped.gradients
    assert clipped.norm.lower == clipped.norm.upper == 5
    assert clipped.side == 1
    assert first is not None
    assert last is not None
    assert first.list_fractions() + last.list_fractions() == [Fraction(3, 2), Fraction(-2)]
    assert none is None
    assert excluded is not None
    assert excluded.is_unchanged
    assert round_elements(excluded, "float64") == encode([12.0, math.nan], "float64")


def test_clip_by_value_limits_elements_and_keeps_nan_and_minus_zero() -> None:
    values = decode_exactly(-3.0, -0.5, -0.0, 0.75, math.inf, -math.inf, math.nan)

    expected = exact.clip_by_value(values, -1, Fraction(1, 3))

    third = Fraction(1, 3)
    assert expected.list_fractions() == [-1, Fraction(-1, 2), 0, third, third, -1, 0]
    assert list(expected.values.special) == [6]
    as_bits = np.frombuffer(round_elements(expected, "float64"), dtype=np.float64)
    np.testing.assert_array_equal(as_bits, [-1, -0.5, -0.0, 1 / 3, 1 / 3, -1, math.nan])
    assert np.signbit(as_bits[2])


def test_bound_of_zero_and_swapped_bounds_are_used_as_given() -> None:
    assert exact.clip_by_value(decode_exactly(-2.0, 2.0), 0, 1).list_fractions() == [0, 1]
    assert exact.clip_by_value(decode_exactly(2.0**60, -math.inf), 1.0, -1.0).list_fractions() == [-1, -1]


def test_nonfinite_norms_give_nan_and_zeros() -> None:
    one, other, finite = np.array([1.0, -math.inf, -2.0]), np.array([math.nan]), np.array([1.0])

    assert list_nonfinite_norms([finite, finite]) == ()
    assert list_nonfinite_norms([finite, one]) == (math.inf,)
    assert list(map(str, list_nonfinite_norms([one, other]))) == ["nan", "inf"]
    assert list(map(str, predict_nonfinite(one, math.inf))) == ["0.0", "nan", "-0.0"]
    assert list(map(str, predict_nonfinite(finite, math.nan))) == ["nan"]


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("dtype", FORMATS)
@given(st.data())
def test_bulk_distances_equal_the_distances_of_single_elements(dtype: str, data: st.DataObject) -> None:
    form = FORMATS[dtype]
    bits = st.lists(st.integers(0, 2**form.width - 1), min_size=1, max_size=8)
    given_bits = [b for b in data.draw(bits) if b & ~form.sign_bit < form.infinity_bits]
    got_bits = [data.draw(st.integers(0, 2**form.width - 1)) for _ in given_bits]
    values = decode(np.array(given_bits, dtype=f"<u{form.width // 8}").tobytes(), dtype)
    got = np.array(got_bits, dtype=f"<u{form.width // 8}").tobytes()
    factor = data.draw(st.fractions())
    expected = ExpectedArray(values, factor)

    measured = bulk.measure_distances(got, expected, dtype)

    exact_values = [factor * decode_bits(b, form) for b in given_bits]
    assert measured.tolist() == [
        measure_distance(g, value, form) for g, value in zip(got_bits, exact_values, strict=True)
    ]


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        *itertools.product(("float16", "bfloat16", "float32"), (2.0**-140, 2.0**-15, 1.0, 2.0**14)),
        *itertools.product(("float64",), (2.0**-1065, 2.0**-15, 1.0, 2.0**1020)),
    ],
)
def test_distances_of_many_elements_keep_their_error_bound(dtype: str, size: float) -> None:
    form, generator = FORMATS[dtype], np.random.default_rng(22)
    is_wide = dtype == "float64"
    count = (bulk.SHORT if is_wide else bulk.MANY) + 1
    numbers = np.clip(generator.standard_normal(count) * size, -float(form.largest), float(form.largest))
    expected = ExpectedArray(decode(round_all(numbers, dtype), dtype), Fraction(1234567, 3**11))
    answers = np.frombuffer(round_elements(expected, dtype), dtype=f"<u{form.width // 8}").copy()
    answers += generator.integers(0, 3, count, dtype=answers.dtype)
    answers[17] = form.infinity_bits

    fast = bulk.measure_distances(answers.tobytes(), expected, dtype)

    pieces = np.array(
        [measure_distance(g, value, form) for g, value in zip(answers.tolist(), expected.list_fractions(), strict=True)]
    )
    finite = np.isfinite(pieces)
    assert finite.tolist() == np.isfinite(fast).tolist()
    assert np.abs(fast[finite] - pieces[finite]).max() <= (
        bulk.WIDE_ERROR if is_wide else 3 * 2.0 ** (form.precision - 53)
    )
    # Of many elements of float64, only the largest distance is exact.
    assert not is_wide or fast[finite].max() == pieces[finite].max()


@pytest.mark.parametrize("dtype", FORMATS)
def test_distances_of_many_elements_are_exact_at_the_edges_of_binades(dtype: str) -> None:
    """Check the ulp at the tie that rounds up to 1, and just below the tie, where it is half as large."""
    form = FORMATS[dtype]
    tie = 1 - compute_power_of_two(-form.precision - 1)
    count = (bulk.SHORT if dtype == "float64" else bulk.MANY) + 4
    # The distance of the last element lies between the two ulps, so that it hides neither.
    given_bits = [round_to(Fraction(1), form)] * count + [round_to(Fraction(3, 4), form)]
    got = np.array(given_bits, dtype=f"<u{form.width // 8}").tobytes()
    for target, result in ((tie, 0.25), (tie - compute_power_of_two(-100), 0.5)):
        expected = ExpectedArray(decode(got, dtype), target)
        *every, last = bulk.measure_distances(got, expected, dtype).tolist()
        assert every == pytest.approx([result] * count, rel=1e-12)
        assert abs(last - 0.375) < bulk.WIDE_ERROR


@pytest.mark.parametrize("count", [3, bulk.MANY + 5, bulk.SHORT + 5])
@pytest.mark.parametrize("dtype", FORMATS)
def test_distances_in_ulp_of_other_elements_are_exact_over_the_whole_range(dtype: str, count: int) -> None:
    form, generator = FORMATS[dtype], np.random.default_rng(22)
    exponents = generator.integers(form.smallest_exponent, form.maximum_exponent, count).tolist()
    signs = generator.choice([-1, 1], count).tolist()
    numbers = [sign * compute_power_of_two(exponent) for sign, exponent in zip(signs, exponents, strict=True)]
    given_bytes = encode([0.0, *numbers[1:]], dtype)
    # The result is the tie between 1 and the number below it, which rounds to 1, times a power of two.
    tie = 1 - compute_power_of_two(-form.precision - 1)
    expected, other = (ExpectedArray(decode(given_bytes, dtype), ratio) for ratio in (Fraction(3, 4), tie))

    every = bulk.measure_distances_in_ulp_of(other, given_bytes, expected, dtype)

    given = decode(given_bytes, dtype).list_fractions()
    assert every.tolist() == [abs(one) / 4 / ulp(tie * one, form) for one in given]


def test_distances_of_half_an_ulp_are_exact() -> None:
    # A 49th of each element lies in the middle of two numbers of float32. In float64, each product is a little wrong.
    lower = range(2**24 - 1001, 2**24 - 1)
    values = DyadicArray([49 * (2 * number + 1) for number in lower], -1, [False] * len(lower))
    got = np.array(lower, dtype="<f4").tobytes()

    assert set(bulk.measure_distances(got, ExpectedArray(values, Fraction(1, 49)), "float32").tolist()) == {0.5}


@pytest.mark.parametrize("count", [3, bulk.MANY + 3])
def test_distances_of_nan_infinity_and_zeros_are_zero_or_infinite(count: int) -> None:
    values = encode([math.nan, math.inf, -0.0] + [60000.0] * (count - 3), "float16")
    same = ExpectedArray(decode(values, "float16"))
    assert bulk.measure_largest_distance(values, same, "float16")[0] == 0
    twice = same.multiply_by(Fraction(2))
    infinite = encode([math.nan, math.inf, 0.0] + [math.inf] * (count - 3), "float16")
    assert bulk.measure_largest_distance(infinite, twice, "float16")[0] == 0
    nothing = encode([math.nan] * count, "float16")
    assert bulk.measure_distances(nothing, same, "float16").tolist() == [0.0] + [math.inf] * (count - 1)
    assert bulk.measure_largest_distance(nothing, same, "float16") == (math.inf, 1)


def test_largest_distance_of_no_elements_is_zero() -> None:
    assert bulk.measure_largest_distance(b"", ExpectedArray(decode_exactly()), "float32") == (0.0, -1)


# The integers of long arrays.


def draw_all_magnitudes(dtype: str, size: int) -> bytes:
    """Return finite numbers of both signs, drawn by their bit patterns."""
    form, generator = FORMATS[dtype], np.random.default_rng(1)
    bits = generator.integers(0, form.infinity_bits, size, dtype=np.uint64)
    bits |= np.uint64(form.sign_bit) * generator.integers(0, 2, size, dtype=np.uint64)
    return bits.astype(DTYPES[dtype]).tobytes()


def decode_long(data: bytes, dtype: str) -> tuple[DyadicArray, LongIntegers]:
    """Return a long array, and its integers."""
    values = decode(data, dtype)
    assert isinstance(values.integers, LongIntegers)
    return values, values.integers


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("size", [LONG, BLOCK + 500])
def test_sums_of_squares_and_zeros_are_those_of_python(size: int, dtype: str) -> None:
    data = draw_all_magnitudes(dtype, size)
    values, integers = decode_long(data, dtype)
    each = list(integers)

    assert integers.add_squares() == sum(one * one for one in each)
    assert integers.count(0) == each.count(0)
    bits = 0
    for one in each:
        bits |= abs(one)
    assert integers.count_common_zeros() == (bits & -bits).bit_length() - 1
    assert np.array_equal(values.doubles, decode_doubles(data, dtype))
    places = [size - 1, 0, 100]
    taken = list(values.take_places(places).integers)
    assert taken == [each[place] for place in places] == [integers[place] for place in places]


def test_sum_of_full_significands_is_exact() -> None:
    full = float(np.nextafter(2.0, 1.0))
    values, _ = decode_long(np.full(2 * BLOCK, full).tobytes(), "float64")

    assert exact.compute_norm([values]).power == 2 * BLOCK * Fraction(full) ** 2


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
    values, integers = decode_long(np.full(LONG, -0.0).tobytes(), "float64")

    assert exact.compute_norm([values]).upper == 0
    assert integers.count(0) == LONG
    assert not np.any(values.doubles)
    assert all(values.negative)
