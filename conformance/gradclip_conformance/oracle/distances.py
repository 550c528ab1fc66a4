"""Distances of whole arrays from what is expected, in ulp, and the expected arrays rounded once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .formats import FORMATS, Exact, Format, decode, distance, encode, round_quotient, round_to, to_doubles
from .model import Expected

__all__ = ["distances", "distances_in_ulp_of", "largest_distance", "rounded"]

#: From this length on, formats of at most 24 bits are measured in float64.
MANY = 4096

#: So many elements are measured in float64 at once: few enough for a processor's cache.
BLOCK = 2**14


def rounded(expected: Expected, dtype: str) -> bytes:
    """The expected elements, each rounded once to the dtype; zeros keep the sign of the element they come from."""
    form, values = FORMATS[dtype], expected.values
    bits = [
        round_to(fraction, form) | (form.sign_bit if values.negative[place] and not fraction else 0)
        for place, fraction in enumerate(expected.fractions())
    ]
    packed = np.array(bits, dtype=f"<u{form.width // 8}")
    for place, value in values.special.items():
        packed[place] = np.frombuffer(encode([value], dtype), dtype=packed.dtype)[0]
    return packed.tobytes()


def largest_distance(got: bytes, expected: Expected, dtype: str) -> tuple[float, int]:
    """The largest distance and the first place where it is; (0.0, -1) of an empty array."""
    every = distances(got, expected, dtype)
    if not len(every):
        return 0.0, -1
    place = int(every.argmax())
    return float(every[place]), place


def distances(got: bytes, expected: Expected, dtype: str) -> npt.NDArray[np.float64]:
    """How far each element lies from the expected one, in ulp at the expected one rounded to the dtype.

    Signs of zeros are not looked at. An infinity is at distance 0 where the expected element rounds to it, a NaN where
    a NaN is expected; otherwise both are infinitely far.

    Exact, to the float64 that it is reported in; but in arrays of more than 4096 elements of a format of `p <= 24` bits
    the expected element is the product of two float64 (three roundings), so that the distance is wrong by at most
    `3 * 2**(p - 53)` ulp, 6e-9 at p = 24, and 0 where the coefficient is 1 or a power of two. Where that error could
    mistake the binade, the element is measured exactly nevertheless.

    Raises
    ------
    ValueError
        When the two have different lengths.
    """
    form = FORMATS[dtype]
    if 8 * len(got) != form.width * len(expected.values):
        message = (
            f"{len(got)} bytes of {dtype} were to be compared with {len(expected.values)} expected elements; "
            "compare the shapes before the values"
        )
        raise ValueError(message)
    if len(expected.values) > MANY and form.precision <= 24:
        every = _in_blocks(got, expected, form)
    else:
        every = _one_by_one(decode(got, dtype), expected, form, range(len(expected.values)))
    if special := expected.values.special:
        found, wanted = to_doubles(got, dtype)[list(special)], np.array(list(special.values()))
        every[list(special)] = np.where((found == wanted) | (np.isnan(found) & np.isnan(wanted)), 0.0, np.inf)
    return every


def distances_in_ulp_of(other: Expected, got: bytes, expected: Expected, dtype: str) -> npt.NDArray[np.float64]:
    """How far each element lies from the expected one, in ulp at that of `other`, which may be in another binade.

    So the distances of one result from two expectations can be compared. Exact as those of :func:`distances`.
    """
    shift = _ulp_exponents(expected, dtype) - _ulp_exponents(other, dtype)
    every: npt.NDArray[np.float64] = np.ldexp(distances(got, expected, dtype), shift)
    return every


def _ulp_exponents(expected: Expected, dtype: str) -> npt.NDArray[np.int64]:
    """The exponent of the ulp at each expected element, rounded to the dtype."""
    form = FORMATS[dtype]
    if len(expected.values) > MANY and form.precision <= 24:
        units, _ = _units_in_doubles(_targets(expected), form)
    else:
        fractions = map(abs, expected.fractions())
        units = np.array([round_quotient(one.numerator, one.denominator, form)[1] for one in fractions], dtype=np.int64)
    return np.minimum(units, form.ulp_exponent(form.maximum_exponent))


def _one_by_one(got: Exact, expected: Expected, form: Format, places: Iterable[int]) -> npt.NDArray[np.float64]:
    """The distances at these places, in integers: both sides as multiples of `2**lowest / denominator`."""
    values, denominator = expected.values, expected.denominator
    lowest = min(got.exponent, values.exponent)
    got_scale = denominator << (got.exponent - lowest)
    scale = expected.numerator << (values.exponent - lowest)
    # What `lowest` stands for goes to one side of the quotient, so that everything is an integer.
    up, down = 1 << max(lowest, 0), denominator << max(-lowest, 0)
    result = []
    for place in places:
        target = values.integers[place] * scale
        _, unit = round_quotient(abs(target) * up, down, form)
        if place in got.special:
            exact = Fraction(target * up, down)
            infinity = form.infinity_bits | (form.sign_bit if got.negative[place] else 0)
            result.append(math.inf if math.isnan(got.special[place]) else distance(infinity, exact, form))
            continue
        unit = form.ulp_exponent(unit) - lowest
        error = abs(got.integers[place] * got_scale - target)
        result.append(_quotient(error << max(-unit, 0), denominator << max(unit, 0)))
    return np.array(result, dtype=np.float64)


def _quotient(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf


def _in_blocks(got: bytes, expected: Expected, form: Format) -> npt.NDArray[np.float64]:
    width, blocks = form.width // 8, []
    for start in range(0, len(expected.values), BLOCK):
        part = replace(expected, values=expected.values.part(start, start + BLOCK))
        blocks.append(_in_doubles(got[width * start : width * (start + BLOCK)], part, form))
    return np.concatenate(blocks)


def _in_doubles(got: bytes, expected: Expected, form: Format) -> npt.NDArray[np.float64]:
    """The distances in float64; see :func:`distances` for how wrong they can be."""
    target = _targets(expected)
    unit, doubtful = _units_in_doubles(target, form)
    overflows = unit > form.maximum_exponent - form.precision + 1
    unit = np.minimum(unit, form.maximum_exponent - form.precision + 1)
    measured = to_doubles(got, form.name)
    with np.errstate(invalid="ignore"):
        every: npt.NDArray[np.float64] = np.ldexp(np.abs(measured - target), -unit)
    every[~np.isfinite(measured)] = np.inf
    every[np.isinf(measured) & overflows & (np.sign(measured) == np.sign(target))] = 0.0
    if doubtful:
        every[doubtful] = _one_by_one(decode(got, form.name), expected, form, doubtful)
    return every


def _targets(expected: Expected) -> npt.NDArray[np.float64]:
    """The expected elements in float64."""
    factor = float(Fraction(expected.numerator, expected.denominator))
    exact: npt.NDArray[np.float64] = np.array(expected.values.integers, dtype=np.float64)
    return np.ldexp(exact, expected.values.exponent) * factor


def _units_in_doubles(target: npt.NDArray[np.float64], form: Format) -> tuple[npt.NDArray[np.int64], list[int]]:
    """The exponent of the unit of each element rounded to the format, unbounded above, and where that is doubtful."""
    mantissas, exponents = np.frexp(np.abs(target))
    leading = np.where(target == 0, form.minimum_exponent, exponents.astype(np.int64) - 1)
    # From here on a significand rounds up to the next binade.
    carry = 1.0 - 2.0 ** -(form.precision + 1)
    carries = (mantissas >= carry) & (leading >= form.minimum_exponent)
    unit = np.maximum(leading, form.minimum_exponent) - form.precision + 1 + carries
    return unit, np.flatnonzero(np.abs(mantissas - carry) < 2.0**-50).tolist()
