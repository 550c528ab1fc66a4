"""The floating-point formats under test, in exact arithmetic.

Every finite element is an integer times a power of two, so that nothing here rounds except :func:`round_to`, which
rounds once. NumPy only takes the bits apart; no floating-point operation decides anything. This module shares no code
with the reference implementation.

The *ulp* is the value-ulp: the spacing of the format's numbers in the binade of the rounded value, the smallest
subnormal below the normal range, and the spacing of the top binade above the largest finite value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

__all__ = [
    "FORMATS",
    "Exact",
    "Format",
    "bits_of",
    "decode",
    "distance",
    "encode",
    "float_quotient",
    "next_down",
    "next_up",
    "power_of_two",
    "round_quotient",
    "round_to",
    "to_doubles",
    "ulp",
    "value_of",
]


@dataclass(frozen=True)
class Format:
    """A binary interchange format: `precision` significant bits, and the exponents of its normal numbers."""

    name: str
    precision: int
    minimum_exponent: int
    maximum_exponent: int
    width: int

    @property
    def smallest_exponent(self) -> int:
        """The exponent of the smallest subnormal number, of which every finite number is a multiple."""
        return self.minimum_exponent - self.precision + 1

    @property
    def smallest_subnormal(self) -> Fraction:
        """The smallest number above zero."""
        return power_of_two(self.smallest_exponent)

    @property
    def smallest_normal(self) -> Fraction:
        """The smallest number that has all its significant bits."""
        return power_of_two(self.minimum_exponent)

    @property
    def largest(self) -> Fraction:
        """The largest finite number."""
        return (2 - power_of_two(1 - self.precision)) * power_of_two(self.maximum_exponent)

    @property
    def infinity_bits(self) -> int:
        """The bits of plus infinity."""
        return (2 * self.maximum_exponent + 1) << (self.precision - 1)

    @property
    def sign_bit(self) -> int:
        """The bit that is set in negative numbers and in minus zero."""
        return 1 << (self.width - 1)

    def ulp_exponent(self, unit_exponent: int) -> int:
        """The exponent of the ulp, given that of a rounded significand's unit: the top binade's above the range."""
        return min(unit_exponent, self.maximum_exponent - self.precision + 1)


FORMATS = {
    each.name: each
    for each in (
        Format("float16", 11, -14, 15, 16),
        Format("bfloat16", 8, -126, 127, 16),
        Format("float32", 24, -126, 127, 32),
        Format("float64", 53, -1022, 1023, 64),
    )
}


@dataclass(frozen=True)
class Exact:
    """The elements of an array: `integers[i] * 2**exponent`, and beside them what integers cannot say."""

    #: 0 where the element is not finite.
    integers: list[int]
    exponent: int
    #: The sign bit of each element, that of a zero or a NaN too.
    negative: list[bool]
    #: The elements that are not finite, by their place.
    special: dict[int, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.integers)

    @property
    def is_finite(self) -> bool:
        """Whether no element is NaN or infinite."""
        return not self.special

    def part(self, start: int, stop: int) -> Exact:
        """The elements from one place to another."""
        special = {place - start: value for place, value in self.special.items() if start <= place < stop}
        return Exact(self.integers[start:stop], self.exponent, self.negative[start:stop], special)

    def fractions(self) -> list[Fraction]:
        """The elements as fractions, for arrays that are small and finite."""
        unit = power_of_two(self.exponent)
        return [integer * unit for integer in self.integers]


def power_of_two(exponent: int) -> Fraction:
    """`2**exponent`, exactly."""
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def bits_of(data: bytes, dtype: str) -> npt.NDArray[np.uint64]:
    """The elements' bits, one unsigned integer an element."""
    return np.frombuffer(data, dtype=f"<u{FORMATS[dtype].width // 8}").astype(np.uint64)


def _take_apart(data: bytes, dtype: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Signed significands, the exponents of their units, and which elements are finite."""
    form, bits = FORMATS[dtype], bits_of(data, dtype)
    stored = form.precision - 1
    fields = ((bits & np.uint64(form.sign_bit - 1)) >> np.uint64(stored)).astype(np.int64)
    significands = (bits & np.uint64((1 << stored) - 1)).astype(np.int64)
    significands[fields > 0] += 1 << stored
    finite = fields < 2 * form.maximum_exponent + 1
    significands[~finite] = 0
    significands[bits >= np.uint64(form.sign_bit)] *= -1
    return significands, np.maximum(fields, 1) - 1 + form.smallest_exponent, finite


def decode(data: bytes, dtype: str) -> Exact:
    """The elements of an array, exactly.

    Parameters
    ----------
    data
        Little-endian bytes; bfloat16 as its 16 bits.
    dtype
        A name in :data:`FORMATS`.
    """
    form, bits = FORMATS[dtype], bits_of(data, dtype)
    significands, exponents, finite = _take_apart(data, dtype)
    nonzero = significands != 0
    # The lowest exponent that is needed keeps the integers short.
    lowest = int(exponents[nonzero].min()) if nonzero.any() else 0
    shifts = np.where(nonzero, exponents - lowest, 0)
    negative = (bits >= np.uint64(form.sign_bit)).tolist()
    special = {}
    for place in np.flatnonzero(~finite).tolist():
        is_nan = int(bits[place]) & (form.sign_bit - 1) != form.infinity_bits
        special[place] = math.nan if is_nan else (-math.inf if negative[place] else math.inf)
    return Exact(_shifted(significands, shifts, form), lowest, negative, special)


def _shifted(significands: npt.NDArray[np.int64], shifts: npt.NDArray[np.int64], form: Format) -> list[int]:
    """The significands times powers of two, as Python's integers."""
    if not len(shifts) or form.precision + int(shifts.max()) < 64:
        integers: list[int] = (significands << shifts).tolist()
        return integers
    return [m << shift for m, shift in zip(significands.tolist(), shifts.tolist(), strict=True)]


def to_doubles(data: bytes, dtype: str) -> npt.NDArray[np.float64]:
    """The elements as float64, which holds all numbers of all formats; NaN and infinities too."""
    significands, exponents, finite = _take_apart(data, dtype)
    # The unit may lie below float64's normal range; the element, a multiple of it, is exact nevertheless.
    doubles: npt.NDArray[np.float64] = np.ldexp(significands.astype(np.float64), exponents)
    form, bits = FORMATS[dtype], bits_of(data, dtype)
    magnitudes, negative = bits & np.uint64(form.sign_bit - 1), bits >= np.uint64(form.sign_bit)
    doubles[~finite] = np.where(magnitudes[~finite] == form.infinity_bits, np.inf, np.nan)
    return np.copysign(doubles, np.where(negative, -1.0, 1.0))


def encode(values: Iterable[float | Fraction], dtype: str) -> bytes:
    """The little-endian bytes of an array of these values.

    Raises
    ------
    ValueError
        When a value is not representable in the dtype: nothing is rounded here.
    """
    form = FORMATS[dtype]
    return _pack([_encode_one(value, form) for value in values], form)


def _encode_one(value: float | Fraction, form: Format) -> int:
    sign = form.sign_bit if isinstance(value, float) and math.copysign(1.0, value) < 0 else 0
    if isinstance(value, float) and not math.isfinite(value):
        return sign | form.infinity_bits | ((1 << (form.precision - 2)) if math.isnan(value) else 0)
    fraction = Fraction(value)
    bits = round_to(fraction, form)
    if bits & ~form.sign_bit == form.infinity_bits or value_of(bits, form) != fraction:
        message = f"{value!r} is not a {form.name}; give a number that it represents, or round first with round_to"
        raise ValueError(message)
    return bits | sign


def value_of(bits: int, form: Format) -> Fraction:
    """The finite number that these bits stand for."""
    magnitude = bits & (form.sign_bit - 1)
    if magnitude >= form.infinity_bits:
        message = f"the bits {bits:#x} are no finite {form.name}; look for NaN and infinities before asking for a value"
        raise ValueError(message)
    field_value, fraction = divmod(magnitude, 1 << (form.precision - 1))
    significand = fraction + ((1 << (form.precision - 1)) if field_value else 0)
    value = significand * power_of_two(max(field_value, 1) - 1 + form.smallest_exponent)
    return -value if bits & form.sign_bit else value


def round_quotient(numerator: int, denominator: int, form: Format) -> tuple[int, int]:
    """Round `numerator / denominator`, not negative, half to even: the significand, and the exponent of its unit.

    The exponent has no upper bound here, so that the significand of a value that overflows is a plain one.
    """
    if not numerator:
        return 0, form.smallest_exponent
    leading = numerator.bit_length() - denominator.bit_length()
    reaches = numerator >= denominator << leading if leading >= 0 else numerator << -leading >= denominator
    if not reaches:
        leading -= 1
    unit = max(leading, form.minimum_exponent) - form.precision + 1
    if unit >= 0:
        denominator <<= unit
    else:
        numerator <<= -unit
    significand, rest = divmod(numerator, denominator)
    if 2 * rest > denominator or (2 * rest == denominator and significand & 1):
        significand += 1
    if significand == 1 << form.precision:
        return significand >> 1, unit + 1
    return significand, unit


def round_to(value: Fraction, form: Format) -> int:
    """The bits of `value` rounded once, half to even; zero is plus zero, beyond the range is infinity."""
    significand, unit = round_quotient(abs(value.numerator), value.denominator, form)
    # A subnormal significand has no bit in the exponent's field; a normal one carries 1 into it.
    magnitude = ((unit - form.smallest_exponent) << (form.precision - 1)) + significand
    return min(magnitude, form.infinity_bits) | (form.sign_bit if value < 0 else 0)


def ulp(value: Fraction, form: Format) -> Fraction:
    """The value-ulp at `value` rounded to the format."""
    _, unit = round_quotient(abs(value.numerator), value.denominator, form)
    return power_of_two(form.ulp_exponent(unit))


def distance(got: int, exact: Fraction, form: Format) -> float:
    """How far the number with the bits `got` lies from `exact`, in ulp at `exact` rounded.

    An infinity is at distance 0 where `exact` rounds to it, and infinitely far otherwise, as NaN always is. A finite
    number is measured also where `exact` is beyond the range.
    """
    if got & (form.sign_bit - 1) >= form.infinity_bits:
        return 0.0 if got == round_to(exact, form) else math.inf
    return float_quotient(abs(value_of(got, form) - exact), ulp(exact, form))


def float_quotient(numerator: Fraction, denominator: Fraction) -> float:
    """The quotient of two numbers that are not negative, as a float; infinity beyond its range."""
    try:
        return float(numerator / denominator)
    except OverflowError:
        return math.inf


def next_up(value: float, dtype: str) -> float:
    """The least number of the dtype above `value`, which is one of its finite numbers."""
    return _neighbour(value, dtype, +1)


def next_down(value: float, dtype: str) -> float:
    """The greatest number of the dtype below `value`, which is one of its finite numbers."""
    return _neighbour(value, dtype, -1)


def _neighbour(value: float, dtype: str, direction: int) -> float:
    form = FORMATS[dtype]
    bits = _encode_one(value, form)
    magnitude = bits & (form.sign_bit - 1)
    # Magnitudes are in the order of their bits: the line of all numbers is bent at zero, and both zeros are one point.
    step = (-magnitude if bits & form.sign_bit else magnitude) + direction
    neighbour = abs(step) | (form.sign_bit if step < 0 else 0)
    return float(to_doubles(_pack([neighbour], form), dtype)[0])


def _pack(bits: Sequence[int], form: Format) -> bytes:
    return np.array(bits, dtype=f"<u{form.width // 8}").tobytes()
