"""Numbers as unevaluated sums of two floats, so that those that decide a clip have no rounding error that matters.

All functions work on arrays of any library, and branch on no value. Compilers may fuse a multiplication and an
addition into one rounding: the products that are added to something are exact here, so that fusing changes nothing.
The methods are those of T. J. Dekker, "A floating-point technique for extending the available precision" (1971), and
of S. M. Rump, T. Ogita and S. Oishi, "Accurate floating-point summation" (2008).
"""

from collections.abc import Sequence
from typing import Any

__all__ = [
    "add",
    "divide",
    "double_root",
    "finite_or_zero",
    "fold",
    "multiply",
    "power_of_two",
    "top_bits",
    "unstacked",
]

Array = Any


def top_bits(x: Array, anchor: Array) -> Array:
    """The elements of `x` rounded to the last place of `anchor`, which is larger; the result is exact."""
    return (x + anchor) - anchor


def add(x: Array, y: Array) -> tuple[Array, Array]:
    """The rounded sum and its rounding error, exactly (Knuth)."""
    total = x + y
    virtual = total - x
    return total, (x - (total - virtual)) + (y - virtual)


def multiply(x: Array, y: Array, precision: int) -> tuple[Array, Array]:
    """The rounded product and its rounding error (Dekker, split by addition)."""
    shift = 2.0 ** ((precision + 1) // 2)
    x_high, y_high = top_bits(x, x * shift), top_bits(y, y * shift)
    x_low, y_low = x - x_high, y - y_high
    product = x * y
    return product, ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


def double_root(xp: Any, high: Array, low: Array, precision: int) -> tuple[Array, Array]:
    """The square root of `high + low`, zero or more, as two numbers; its derivative at zero is zero, too."""
    nonzero = high != 0
    high = xp.where(nonzero, high, xp.ones_like(high))
    low = xp.where(nonzero, low, xp.zeros_like(low))
    root = xp.sqrt(high)
    square, error = multiply(root, root, precision)
    root, correction = add(root, finite_or_zero(xp, (((high - square) - error) + low) / (2 * root)))
    zero = xp.zeros_like(root)
    return xp.where(nonzero, root, zero), xp.where(nonzero, finite_or_zero(xp, correction), zero)


def divide(xp: Any, x: Array, high: Array, low: Array, precision: int) -> Array:
    """The quotient `x / (high + low)`, correctly rounded but for the rarest of ties."""
    quotient = x / high
    product, error = multiply(quotient, high, precision)
    return quotient + finite_or_zero(xp, (((x - product) - error) - quotient * low) / high)


def fold(xp: Any, x: Array) -> tuple[Array, Array]:
    """The sum over the first axis, folded in halves, and the sum of the rounding errors that were made."""
    errors = xp.zeros_like(x[:1, ...])
    while x.shape[0] > 1:
        half = x.shape[0] // 2
        if x.shape[0] == 2 * half:
            # Not by slices: where JAX has no float64 by default, it cannot take a second derivative through one.
            x, error = add(*unstacked(xp, xp.reshape(x, (2, half, *x.shape[1:]))))
        else:
            total, error = add(x[:half, ...], x[half : 2 * half, ...])
            x = xp.concat([total, x[2 * half :, ...]])
        errors = errors + xp.sum(error, axis=0, keepdims=True)
    return xp.reshape(x, x.shape[1:]), xp.reshape(errors, x.shape[1:])


def unstacked(xp: Any, x: Array) -> Sequence[Array]:
    """The parts of an array along its first axis."""
    # Tensors have a way of their own that torch's vmap knows; that of array-api-compat it does not.
    return x.unbind(0) if hasattr(x, "unbind") else xp.unstack(x)  # type: ignore[no-any-return]


def power_of_two(xp: Any, exponent: Array, precision: int) -> Array:
    """Two to a whole number, exactly, also where the library's own power is off by some rounding errors.

    For exponents below 977 of float64, and below 110 of float32: beyond, the anchor overflows.
    """
    approximate = xp.pow(xp.full_like(exponent, 2.0), exponent)
    return top_bits(approximate, approximate * 2.0 ** (precision - 6))


def finite_or_zero(xp: Any, correction: Array) -> Array:
    """A correction; that of an infinity is the difference of two infinities, and the infinity stands without it."""
    return xp.where(xp.isfinite(correction), correction, xp.zeros_like(correction))
