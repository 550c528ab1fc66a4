"""Decode the bytes of an array to exact numbers, and round exact numbers to bytes."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from .formats import FORMATS, Format, encode, read_bits, round_to, take_apart
from .model import DyadicArray, ExpectedArray

__all__ = ["decode", "round_elements"]


#: Arrays of at most this many bytes are kept, decoded. Of five that are decoded, four have been decoded before.
SHORT = 256


def decode(data: bytes, dtype: str) -> DyadicArray:
    """Return the elements of an array, exactly.

    Parameters
    ----------
    data
        Little-endian bytes; bfloat16 as its 16 bits.
    dtype
        A name in :data:`FORMATS`.
    """
    return (_decode_short if len(data) <= SHORT else _decode_long)(data, dtype)


def _decode(data: bytes, dtype: str) -> DyadicArray:
    form, bits = FORMATS[dtype], read_bits(data, dtype)
    significands, exponents, finite = take_apart(data, dtype)
    nonzero = significands != 0
    # A common exponent no lower than needed keeps the integers short. Python keeps one copy of the shortest ones.
    lowest_bits = significands & -significands
    zeros = np.where(nonzero, np.frexp(lowest_bits.astype(np.float64))[1] - 1, 0)
    lowest = int((exponents + zeros)[nonzero].min()) if nonzero.any() else 0
    shifts = np.where(nonzero, exponents + zeros - lowest, 0)
    significands = significands >> zeros
    negative = (bits >= np.uint64(form.sign_bit)).tolist()
    special = {}
    for place in np.flatnonzero(~finite).tolist():
        is_nan = int(bits[place]) & (form.sign_bit - 1) != form.infinity_bits
        special[place] = math.nan if is_nan else (-math.inf if negative[place] else math.inf)
    return DyadicArray(_shift(significands, shifts, form), lowest, negative, special)


_decode_short = lru_cache(maxsize=1 << 11)(_decode)
#: Every operation is asked about the same very long array, one after another.
_decode_long = lru_cache(maxsize=1)(_decode)


def _shift(significands: npt.NDArray[np.int64], shifts: npt.NDArray[np.int64], form: Format) -> list[int]:
    """Return the significands times powers of two, as Python's integers."""
    if not len(shifts) or form.precision + int(shifts.max()) < 64:
        integers: list[int] = (significands << shifts).tolist()
        return integers
    return [m << shift for m, shift in zip(significands.tolist(), shifts.tolist(), strict=True)]


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
