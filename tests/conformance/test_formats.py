"""Compare the formats with NumPy's conversions, and the rounding with a search among neighbours."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradclip_conformance.oracle.arrays import LONG, decode
from gradclip_conformance.oracle.formats import (
    FORMATS,
    compute_power_of_two,
    decode_bits,
    decode_doubles,
    encode,
    measure_distance,
    next_down,
    next_up,
    round_to,
    ulp,
)

DTYPES = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}


def sample_bits(dtype: str) -> npt.NDArray[Any]:
    """Return all bit patterns of a 16-bit format, or a sample of a wider one with the ends of every binade."""
    width = FORMATS[dtype].width
    if width == 16:
        return np.arange(2**16, dtype=np.uint16)
    generator = np.random.default_rng(20)
    scattered = generator.integers(0, 2**width, size=20_000, dtype=np.uint64)
    edges = np.arange(2 ** (width - FORMATS[dtype].precision + 1), dtype=np.uint64) << np.uint64(
        FORMATS[dtype].precision - 1
    )
    around = np.concatenate([edges, edges + np.uint64(1), edges - np.uint64(1)]) % np.uint64(2 ** (width - 1) * 2 - 1)
    return np.concatenate([scattered, around]).astype(f"<u{width // 8}")


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("step", [LONG - 1, 1 << 20])
def test_decode_agrees_with_numpy(step: int, dtype: str) -> None:
    every = sample_bits(dtype)
    for bits in np.split(every, range(step, len(every), step)):
        with np.errstate(invalid="ignore"):  # NumPy warns about signalling NaNs
            doubles = bits.view(DTYPES[dtype]).astype(np.float64)

        exact = decode(bits.tobytes(), dtype)

        assert len(exact) == len(bits)
        assert list(exact.negative) == np.signbit(doubles).tolist()
        assert sorted(exact.special) == np.flatnonzero(~np.isfinite(doubles)).tolist()
        for place, value in exact.special.items():
            assert str(value) == str(abs(doubles[place]) if math.isnan(value) else doubles[place])
        unit = compute_power_of_two(exact.exponent)
        for place in np.flatnonzero(np.isfinite(doubles)).tolist():
            assert exact.integers[place] * unit == Fraction(float(doubles[place])), hex(int(bits[place]))


@pytest.mark.parametrize("dtype", FORMATS)
def test_encode_undoes_decode(dtype: str) -> None:
    bits = sample_bits(dtype)[:65_536]
    values = decode_doubles(bits.tobytes(), dtype)

    encoded = np.frombuffer(encode(values.tolist(), dtype), dtype=bits.dtype)

    is_nan = np.isnan(values)
    np.testing.assert_array_equal(encoded[~is_nan], bits[~is_nan])
    assert np.isnan(decode_doubles(encoded[is_nan].tobytes(), dtype)).all()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (0.1, "float32"),
        (2049.0, "float16"),
        (65520.0, "float16"),
        (257.0, "bfloat16"),
        (1e-50, "float32"),
        (Fraction(1, 3), "float64"),
        (Fraction(2) ** 1024, "float64"),
    ],
)
def test_encode_refuses_unrepresentable_values(value: float | Fraction, dtype: str) -> None:
    with pytest.raises(ValueError, match=f"{dtype} does not represent"):
        encode([value], dtype)


@pytest.mark.parametrize("dtype", FORMATS)
@given(st.fractions(), st.integers(-1100, 1100))
def test_round_to_gives_the_nearest_of_three_neighbours_and_the_even_one_of_two(
    dtype: str, fraction: Fraction, exponent: int
) -> None:
    form = FORMATS[dtype]
    value = fraction * compute_power_of_two(exponent)

    bits = round_to(value, form)

    magnitude, size = bits & ~form.sign_bit, abs(value)
    assert bool(bits & form.sign_bit) == (value < 0)
    if magnitude == form.infinity_bits:
        assert size >= form.largest + ulp(form.largest, form) / 2
        return
    error = abs(decode_bits(magnitude, form) - size)
    for beside in {max(magnitude - 1, 0), min(magnitude + 1, form.infinity_bits - 1)} - {magnitude}:
        error_beside = abs(decode_bits(beside, form) - size)
        assert error < error_beside or (error == error_beside and magnitude % 2 == 0)


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("dtype", FORMATS)
def test_round_to_is_right_for_every_number_and_every_middle(dtype: str) -> None:
    form = FORMATS[dtype]
    bits = np.sort(sample_bits(dtype))
    finite = [b for b in bits.tolist() if b < form.infinity_bits - 1][:: 1 if form.width == 16 else 50]
    for low in finite:
        below, above = decode_bits(low, form), decode_bits(low + 1, form)
        middle = (below + above) / 2
        assert round_to(below, form) == low
        assert round_to(middle, form) == (low if low % 2 == 0 else low + 1)
        assert round_to(middle + compute_power_of_two(-2000), form) == low + 1
        assert round_to(middle - compute_power_of_two(-2000), form) == low


@pytest.mark.parametrize("dtype", FORMATS)
def test_round_to_overflows_at_the_middle_above_the_largest(dtype: str) -> None:
    form = FORMATS[dtype]
    middle = form.largest + ulp(form.largest, form) / 2

    assert round_to(middle, form) == form.infinity_bits
    assert round_to(-middle, form) == form.infinity_bits | form.sign_bit
    assert round_to(middle - compute_power_of_two(-3000), form) == form.infinity_bits - 1
    assert round_to(Fraction(10) ** 5000, form) == form.infinity_bits


@pytest.mark.parametrize("dtype", FORMATS)
def test_ulp_is_the_spacing_of_the_rounded_value(dtype: str) -> None:
    form = FORMATS[dtype]
    epsilon = compute_power_of_two(1 - form.precision)
    almost = compute_power_of_two(-3000)

    assert ulp(Fraction(1), form) == epsilon
    assert ulp(1 - epsilon / 2, form) == epsilon / 2, "the number below 1 is in the binade below"
    assert ulp(1 - epsilon / 4, form) == epsilon, "a tie that rounds up to 1"
    assert ulp(1 - epsilon / 4 - almost, form) == epsilon / 2, "just below that tie"
    assert ulp(Fraction(-3), form) == 2 * epsilon
    smallest = form.smallest_subnormal
    assert ulp(Fraction(0), form) == smallest
    assert ulp(smallest / 5, form) == smallest
    assert ulp(3 * smallest, form) == smallest
    assert ulp(form.smallest_normal - smallest / 3, form) == smallest
    assert ulp(form.smallest_normal, form) == smallest
    assert ulp(2 * form.smallest_normal, form) == 2 * smallest
    top = epsilon * compute_power_of_two(form.maximum_exponent)
    assert ulp(form.largest, form) == top
    assert ulp(2 * form.largest, form) == top, "beyond the range, the ulp is that of the top binade"


@pytest.mark.parametrize("dtype", FORMATS)
def test_distance_is_in_ulp_of_the_exact_number(dtype: str) -> None:
    form = FORMATS[dtype]
    one, epsilon = round_to(Fraction(1), form), compute_power_of_two(1 - form.precision)

    assert measure_distance(one, Fraction(1), form) == 0
    assert measure_distance(one + 1, Fraction(1), form) == 1
    assert measure_distance(one - 1, Fraction(1), form) == 0.5, "below a power of two the numbers lie closer"
    assert measure_distance(one + 1, 1 + epsilon / 4, form) == 0.75
    assert measure_distance(one | form.sign_bit, Fraction(1), form) == 2.0**form.precision
    assert measure_distance(0, form.smallest_subnormal / 4, form) == 0.25
    assert measure_distance(3, form.smallest_subnormal, form) == 2


@pytest.mark.parametrize("dtype", FORMATS)
def test_infinities_and_nan_have_their_own_distances(dtype: str) -> None:
    form = FORMATS[dtype]
    infinity, beyond = form.infinity_bits, 2 * form.largest

    assert measure_distance(infinity, beyond, form) == 0
    assert measure_distance(infinity, -beyond, form) == math.inf
    assert measure_distance(infinity | form.sign_bit, -beyond, form) == 0
    assert measure_distance(infinity, form.largest, form) == math.inf
    assert measure_distance(infinity + 1, beyond, form) == math.inf
    middle = form.largest + ulp(form.largest, form) / 2
    assert measure_distance(infinity - 1, middle, form) == 0.5, (
        "a finite answer is measured even if the exact one overflows"
    )


@pytest.mark.parametrize("dtype", FORMATS)
def test_neighbours_are_the_next_numbers(dtype: str) -> None:
    form = FORMATS[dtype]
    smallest, largest = float(form.smallest_subnormal), float(form.largest)
    epsilon = float(compute_power_of_two(1 - form.precision))

    assert (next_up(1.0, dtype), next_down(1.0, dtype)) == (1 + epsilon, 1 - epsilon / 2)
    assert (next_up(-1.0, dtype), next_down(-1.0, dtype)) == (-1 + epsilon / 2, -1 - epsilon)
    assert [next_up(zero, dtype) for zero in (0.0, -0.0)] == [smallest, smallest]
    assert [next_down(zero, dtype) for zero in (0.0, -0.0)] == [-smallest, -smallest]
    assert (next_up(largest, dtype), next_down(-largest, dtype)) == (math.inf, -math.inf)
    assert next_down(smallest, dtype) == 0
    assert next_up(-smallest, dtype) == 0


def test_decode_bits_refuses_nonfinite_numbers() -> None:
    with pytest.raises(ValueError, match="are not a finite float16"):
        decode_bits(FORMATS["float16"].infinity_bits, FORMATS["float16"])
