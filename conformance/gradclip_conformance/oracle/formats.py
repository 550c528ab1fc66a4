"""Define the floating-point formats under test, in exact arithmetic.

Every finite element is an integer times a power of two, so exact arithmetic is possible. If a function rounds, its
description says so, and it rounds once. This module shares no code with the reference implementation.

The *ulp* is the spacing of the format's numbers in the binade of the rounded value. Below the normal range, the ulp is
the smallest subnormal number. Above the largest finite number, it is the spacing of the top binade.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gradclip_adapters.contract import Array


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
        """The exponent of the smallest subnormal number. Every finite number is a multiple of that number."""
        return self.minimum_exponent - self.precision + 1

    @cached_property
    def smallest_subnormal(self) -> Fraction:
        """The smallest number above zero."""
        return compute_power_of_two(self.smallest_exponent)

    @cached_property
    def smallest_normal(self) -> Fraction:
        """The smallest number that has all its significant bits."""
        return compute_power_of_two(self.minimum_exponent)

    @cached_property
    def largest(self) -> Fraction:
        """The largest finite number."""
        return (2 - compute_power_of_two(1 - self.precision)) * compute_power_of_two(self.maximum_exponent)

    @property
    def infinity_bits(self) -> int:
        """The bits of plus infinity."""
        return (2 * self.maximum_exponent + 1) << (self.precision - 1)

    @property
    def sign_bit(self) -> int:
        """The bit that is set in negative numbers and in minus zero."""
        return 1 << (self.width - 1)

    def find_ulp_exponent(self, unit_exponent: int) -> int:
        """Return the exponent of the ulp: `unit_exponent` of a rounded significand, limited by the top binade."""
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


#: The codes of the formats in the module `struct`. A bfloat16 is the upper half of a float32.
CODES = {"float16": "e", "bfloat16": "f", "float32": "f", "float64": "d"}


@lru_cache(maxsize=1 << 13)
def compute_power_of_two(exponent: int) -> Fraction:
    """Return `2**exponent`, exactly."""
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def has_long_doubles() -> bool:
    """Return whether a long double of NumPy has a significand of 64 bits and a wide range."""
    about = np.finfo(np.longdouble)
    return bool(about.nmant >= 63 and about.maxexp > 8192)


def fits_long_double(factor: Fraction) -> bool:
    """Return whether a factor is zero, or of a size that two float64 represent to 106 bits."""
    return not factor or 2.0**-900 < abs(factor) < 2.0**900


def round_to_long_double(value: Fraction | float) -> Any:
    """Return a number in two parts, added in long double. Each part has the digits of a float64."""
    high = float(value)
    return np.longdouble(high) + np.longdouble(float(value - Fraction(high)) if math.isfinite(high) else 0)


def decode_doubles(data: bytes, dtype: str) -> npt.NDArray[np.float64]:
    """Return the elements as float64, which can hold NaN, the infinities and all numbers of all formats.

    The array may share the memory of the bytes, and then cannot be written.

    Raises
    ------
    ValueError
        If the dtype is none of the four.
    """
    if dtype not in FORMATS:
        message = f"the dtype {dtype} is not one of {', '.join(FORMATS)}"
        raise ValueError(message)
    bits = np.frombuffer(data, dtype=f"<u{FORMATS[dtype].width // 8}")
    if dtype == "bfloat16":
        # A bfloat16 is the upper half of a float32.
        bits = bits.astype(np.uint32) << np.uint32(16)
    with np.errstate(invalid="ignore"):  # converting a signalling NaN gives a warning
        doubles: npt.NDArray[np.float64] = bits.view(f"<f{bits.itemsize}").astype(np.float64, copy=False)
    return doubles


def read_float64_values(array: Array) -> npt.NDArray[np.float64]:
    """Return the elements of an array as a flat array of float64, without rounding. See :func:`decode_doubles`."""
    return decode_doubles(array.data, array.dtype)


def read_all(arrays: Iterable[Array]) -> npt.NDArray[np.float64]:
    """Return the elements of several arrays, one after another. Neighbours of one dtype are decoded at once."""
    runs = itertools.groupby(arrays, key=lambda array: array.dtype)
    read = [decode_doubles(b"".join(array.data for array in run), dtype) for dtype, run in runs]
    return read[0] if len(read) == 1 else np.concatenate([np.zeros(0), *read])


def encode(values: Iterable[float | Fraction], dtype: str) -> bytes:
    """Return the little-endian bytes of an array of these values.

    Raises
    ------
    ValueError
        If the dtype does not represent a value: this function does not round.
    """
    listed = list(values)
    # The short lists of most cases would take NumPy ten times as long.
    form = f"<{len(listed)}{CODES[dtype]}"
    try:
        packed = bytearray(struct.pack(form, *listed))
    except (OverflowError, struct.error):
        largest = FORMATS[dtype].largest
        beyond = (value for value in listed if not -largest <= value <= largest and -math.inf < value < math.inf)
        raise _refuse(next(beyond), dtype) from None
    if dtype == "bfloat16":
        packed[0::4] = packed[1::4] = bytes(len(listed))
    for value, number in zip(listed, struct.unpack(form, packed), strict=True):
        if number != value and not math.isnan(value):
            raise _refuse(value, dtype)
    if dtype == "bfloat16":
        del packed[0::4], packed[0::3]
    return bytes(packed)


def _refuse(value: float | Fraction, dtype: str) -> ValueError:
    """Return the error about a number that the dtype does not represent."""
    return ValueError(f"{dtype} does not represent {value!r}; give a number that it represents, or round first")


def decode_bits(bits: int, form: Format) -> Fraction:
    """Return the finite number that these bits represent."""
    magnitude = bits & (form.sign_bit - 1)
    if magnitude >= form.infinity_bits:
        message = f"the bits {bits:#x} are not a finite {form.name}; handle NaN and infinities first"
        raise ValueError(message)
    field_value, fraction = divmod(magnitude, 1 << (form.precision - 1))
    significand = fraction + ((1 << (form.precision - 1)) if field_value else 0)
    value = significand * compute_power_of_two(max(field_value, 1) - 1 + form.smallest_exponent)
    return -value if bits & form.sign_bit else value


def round_quotient(numerator: int, denominator: int, form: Format) -> tuple[int, int]:
    """Round a quotient that is not negative, half to even. Return the significand and the exponent of its unit.

    The exponent has no upper bound here, so that a value that overflows has a significand like any other.
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
    """Return the bits of `value` rounded once, half to even. Zero becomes plus zero, and an overflow gives infinity."""
    significand, unit = round_quotient(abs(value.numerator), value.denominator, form)
    # A subnormal significand has no bit in the exponent's field. A normal one carries 1 into it.
    magnitude = ((unit - form.smallest_exponent) << (form.precision - 1)) + significand
    return min(magnitude, form.infinity_bits) | (form.sign_bit if value < 0 else 0)


def ulp(value: Fraction, form: Format) -> Fraction:
    """Return the ulp at `value` rounded to the format."""
    _, unit = round_quotient(abs(value.numerator), value.denominator, form)
    return compute_power_of_two(form.find_ulp_exponent(unit))


def measure_distance(got: int, exact: Fraction, form: Format) -> float:
    """Return the distance between `exact` and the number whose bits are `got`, in ulp at `exact` (see :func:`ulp`).

    An infinity has the distance 0 if `exact` rounds to it, and an infinite distance otherwise. A NaN has an infinite
    distance. A finite number has a finite distance even if `exact` is beyond the range.
    """
    if got & (form.sign_bit - 1) >= form.infinity_bits:
        return 0.0 if got == round_to(exact, form) else math.inf
    return divide_to_float(abs(decode_bits(got, form) - exact), ulp(exact, form))


def divide_to_float(numerator: Fraction, denominator: Fraction) -> float:
    """Return the quotient of two numbers, neither negative, as a float, or infinity if it is too large."""
    try:
        return float(numerator / denominator)
    except OverflowError:
        return math.inf


def next_up(value: float, dtype: str) -> float:
    """Return the next larger number of the dtype. `value` is a finite number of the dtype."""
    return _find_neighbour(value, dtype, +1)


def next_down(value: float, dtype: str) -> float:
    """Return the next smaller number of the dtype. `value` is a finite number of the dtype."""
    return _find_neighbour(value, dtype, -1)


def _find_neighbour(value: float, dtype: str, direction: int) -> float:
    form = FORMATS[dtype]
    bits = int.from_bytes(encode([value], dtype), "little")
    magnitude = bits & (form.sign_bit - 1)
    # Magnitudes are ordered like their bits. Map bits to signed places so that both zeros have the place 0.
    step = (-magnitude if bits & form.sign_bit else magnitude) + direction
    neighbour = abs(step) | (form.sign_bit if step < 0 else 0)
    data = np.array([neighbour], f"<u{form.width // 8}").tobytes()
    return float(decode_doubles(data, dtype)[0])


def round_all(values: npt.NDArray[np.float64], dtype: str) -> bytes:
    """Return the little-endian bytes of float64 numbers, each rounded once to the dtype, half to even."""
    if dtype != "bfloat16":
        with np.errstate(over="ignore"):
            return values.astype(np.dtype(dtype).newbyteorder("<")).tobytes()
    form = FORMATS[dtype]
    _, exponents = np.frexp(values)
    # Find the exponent of the unit of each rounded number. All subnormal numbers have the smallest exponent.
    units = np.maximum(exponents - form.precision, form.smallest_exponent)
    whole = np.rint(np.ldexp(values, -units))
    with np.errstate(over="ignore", invalid="ignore"):
        singles = np.where(np.isfinite(values), np.ldexp(whole, units), values).astype("<f4")
    return (singles.view("<u4") >> np.uint32(16)).astype("<u2").tobytes()


def convert_to_dtype(array: Array, dtype: str) -> bytes:
    """Return the elements' bytes in another dtype, each rounded once, to compare a result of the wrong dtype."""
    return array.data if array.dtype == dtype else round_all(read_float64_values(array), dtype)
