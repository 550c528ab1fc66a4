"""Compare arrays and norms that came back with those that were passed or expected."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from gradclip_adapters.contract import DTYPES, Array

from ..oracle.formats import FORMATS, float64_values, float_quotient, round_to, to_doubles, ulp

__all__ = [
    "differs_in_subnormals_only",
    "first_difference",
    "norm_distance",
    "norm_value",
    "same_bits",
]

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def same_bits(given: Array, got: Array | None, through_optimizer: bool) -> bool:
    """Return whether a gradient came back bit for bit; for an optimizer, whether its values came back."""
    if got is None or (given.dtype, given.shape) != (got.dtype, got.shape):
        return False
    if given.data == got.data:
        return True
    if not through_optimizer:
        return False
    return bool(np.array_equal(float64_values(given), float64_values(got), equal_nan=True))


def first_difference(given: Array, got: Array | None) -> str:
    """Describe the first difference of an array that did not come back bit for bit."""
    if got is None or (given.dtype, given.shape) != (got.dtype, got.shape):
        return "it is None" if got is None else f"it is {got.dtype} of the shape {got.shape}"
    before, after = given.bits().ravel(), got.bits().ravel()
    place = int(np.argmax(before != after))
    was, became = float64_values(given)[place], float64_values(got)[place]
    return f"element {place} was {was} and is {became}, bits {before[place]:#x} and {after[place]:#x}"


def differs_in_subnormals_only(given: Array, got: Array) -> bool:
    """Return whether the only change is that subnormal numbers have become zero."""
    smallest = float(FORMATS[given.dtype].smallest_normal)
    before, after = float64_values(given), float64_values(got)
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    return given.dtype == got.dtype and bool((same | ((abs(before) < smallest) & (after == 0))).all())


def norm_value(norm: Array) -> float:
    """Return, as a float, a norm that came back.

    Raises
    ------
    ValueError
        If it is not a single number.
    """
    if math.prod(norm.shape) != 1:
        msg = f"the norm that was returned has the shape {norm.shape}, not one number"
        raise ValueError(msg)
    if norm.dtype in DTYPES:
        return float(to_doubles(norm.data, norm.dtype)[0])
    if norm.dtype not in _INTEGERS:
        msg = f"the norm that was returned is of the dtype {norm.dtype}"
        raise ValueError(msg)
    # The norm over no gradients may come back as the integer 0.
    dtype = np.dtype(norm.dtype)
    return float(np.frombuffer(norm.data, dtype=dtype.newbyteorder("<"))[0])


def norm_distance(norm: Array, expected: Fraction, dtype: str) -> float:
    """Return the distance of a norm from the exact one, in ulp of the gradients' dtype.

    The norm may have another dtype. A wider one is judged by the same budget; a narrower one loses digits. Infinity is
    right if the exact norm is beyond the range of the gradients' dtype.
    """
    value, form = norm_value(norm), FORMATS[dtype]
    if not math.isfinite(value):
        return 0.0 if value == math.inf and round_to(expected, form) == form.infinity_bits else math.inf
    return float_quotient(abs(Fraction(value) - expected), ulp(expected, form))
