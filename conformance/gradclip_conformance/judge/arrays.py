"""Compare returned arrays and norms with the passed or expected ones."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from gradclip_adapters.contract import DTYPES, Array

from ..oracle.formats import FORMATS, decode_doubles, divide_to_float, read_float64_values, round_to, ulp

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def has_same_bits(given: Array, got: Array | None, through_optimizer: bool) -> bool:
    """Return whether a gradient came back bit for bit. For an optimizer, return whether its values came back."""
    if got is None or (given.dtype, given.shape) != (got.dtype, got.shape):
        return False
    if given.data == got.data:
        return True
    if not through_optimizer:
        return False
    return bool(np.array_equal(read_float64_values(given), read_float64_values(got), equal_nan=True))


def describe_first_difference(given: Array, got: Array | None) -> str:
    """Describe the first difference of an array that did not come back bit for bit."""
    if got is None or (given.dtype, given.shape) != (got.dtype, got.shape):
        return "it is None" if got is None else f"it is {got.dtype} of the shape {got.shape}"
    before, after = given.bits().ravel(), got.bits().ravel()
    place = int(np.argmax(before != after))
    was, became = read_float64_values(given)[place], read_float64_values(got)[place]
    return f"element {place} was {was} and is {became}, bits {before[place]:#x} and {after[place]:#x}"


def differs_in_subnormals_only(given: Array, got: Array) -> bool:
    """Return whether the only change is that subnormal numbers have become zero."""
    smallest = float(FORMATS[given.dtype].smallest_normal)
    before, after = read_float64_values(given), read_float64_values(got)
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    return given.dtype == got.dtype and bool((same | ((abs(before) < smallest) & (after == 0))).all())


def read_norm(norm: Array) -> float:
    """Return the single number in a returned norm, as a float.

    Raises
    ------
    ValueError
        If it is not a single number.
    """
    if math.prod(norm.shape) != 1:
        msg = f"the norm that was returned has the shape {norm.shape}, not one number"
        raise ValueError(msg)
    if norm.dtype in DTYPES:
        return float(decode_doubles(norm.data, norm.dtype)[0])
    if norm.dtype not in _INTEGERS:
        msg = f"the norm that was returned is of the dtype {norm.dtype}"
        raise ValueError(msg)
    # The norm over no gradients may come back as the integer 0.
    dtype = np.dtype(norm.dtype)
    return float(np.frombuffer(norm.data, dtype=dtype.newbyteorder("<"))[0])


def measure_norm_distance(norm: Array, expected: Fraction, dtype: str) -> float:
    """Return the distance of a norm from the exact one, in ulp of the gradients' dtype.

    The norm may have another dtype. A wider one is judged by the same budget; a narrower one loses digits. Infinity is
    right if the exact norm is beyond the range of the gradients' dtype.
    """
    value, form = read_norm(norm), FORMATS[dtype]
    if not math.isfinite(value):
        return 0.0 if value == math.inf and round_to(expected, form) == form.infinity_bits else math.inf
    return divide_to_float(abs(Fraction(value) - expected), ulp(expected, form))
