"""Decode the bytes of an array to exact numbers, and round exact numbers to bytes."""

from __future__ import annotations

import functools
import operator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .formats import FORMATS, decode_doubles, encode, round_to
from .long_integers import LongIntegers
from .model import DyadicArray, ExpectedArray

#: Arrays of at most this many bytes are kept, decoded. Of five that are decoded, four have been decoded before.
SHORT = 256
#: From this many elements on, arrays of NumPy are quicker than a Python integer for each element.
LONG = 256


def decode(data: bytes, dtype: str) -> DyadicArray:
    """Return the elements of an array, exactly.

    Parameters
    ----------
    data
        Little-endian bytes; bfloat16 as its 16 bits.
    dtype
        A name in :data:`FORMATS`.
    """
    if 8 * len(data) >= LONG * FORMATS[dtype].width:
        return _decode_long(data, dtype)
    return _keep_decoded(data, dtype) if len(data) <= SHORT else _decode(data, dtype)


def _decode(data: bytes, dtype: str) -> DyadicArray:
    doubles = decode_doubles(data, dtype)
    elements = doubles.tolist()
    special = _list_special(doubles)
    ratios = [(0, 1) if place in special else one.as_integer_ratio() for place, one in enumerate(elements)]
    # Each denominator is a power of two, so the largest one is a multiple of the others.
    denominator = max((one for _, one in ratios), default=1)
    integers = [numerator * (denominator // one) for numerator, one in ratios]
    exponent = 1 - denominator.bit_length()
    if denominator == 1:
        # A common exponent no lower than needed keeps the integers short. Python keeps one copy of the shortest ones.
        bits = functools.reduce(operator.or_, integers, 0)
        exponent = max((bits & -bits).bit_length() - 1, 0)
        integers = [one >> exponent for one in integers]
    return DyadicArray(integers, exponent, np.signbit(doubles).tolist(), special)


_keep_decoded = functools.lru_cache(maxsize=1 << 11)(_decode)


# Every operation is asked about the same very long array, one after another.
@functools.lru_cache(maxsize=1)
def _decode_long(data: bytes, dtype: str) -> DyadicArray:
    return _hold_long(decode_doubles(data, dtype))


def _hold_long(doubles: npt.NDArray[np.float64]) -> DyadicArray:
    mantissas, exponents = np.frexp(np.where(np.isfinite(doubles), doubles, 0.0))
    # A mantissa lies in [1/2, 1) and has at most 53 bits, so this rounds nothing.
    significands = np.ldexp(mantissas, 53).astype(np.int64)
    lowest = int(exponents.min(where=significands != 0, initial=FORMATS["float64"].maximum_exponent))
    integers = LongIntegers(significands, np.maximum(exponents - lowest, 0).astype(np.int16))
    return DyadicArray(integers, lowest - 53, np.signbit(doubles).tobytes(), _list_special(doubles))


def clip_long_by_value(values: DyadicArray, low: float, high: float) -> ExpectedArray:
    """Return `min(max(x, low), high)` of each element of a long array, exactly. One of the bounds may be infinite."""
    doubles = values.doubles.copy()
    for place, value in values.special.items():
        doubles[place] = value
    # Float64 holds the elements and the bounds, and comparisons round nothing.
    clipped = np.where(doubles < low, low, np.where(doubles > high, high, doubles))
    return ExpectedArray(_hold_long(clipped))


def _list_special(doubles: npt.NDArray[np.float64]) -> dict[int, float]:
    """Return the elements that are not finite, by their place."""
    return {place: float(doubles[place]) for place in np.flatnonzero(~np.isfinite(doubles)).tolist()}


def round_elements(expected: ExpectedArray, dtype: str) -> bytes:
    """Return the expected elements, each rounded once to the dtype. A zero has the sign of its input element."""
    form, values = FORMATS[dtype], expected.values
    unit = expected.factor * Fraction(2) ** values.exponent
    # Elements often repeat, and rounding a fraction is slow.
    rounded = {integer: round_to(integer * unit, form) for integer in set(values.integers)}
    bits = [
        rounded[integer] | (form.sign_bit if negative and not integer else 0)
        for integer, negative in zip(values.integers, values.negative, strict=True)
    ]
    packed = np.array(bits, dtype=f"<u{form.width // 8}")
    for place, value in values.special.items():
        packed[place] = np.frombuffer(encode([value], dtype), dtype=packed.dtype)[0]
    return packed.tobytes()
