"""Compute more accurately than one float allows, on arrays of any library.

Each number is held as a pair of floats, which stands for their exact sum. No function branches on a value, so all of
them can be traced. Compilers may fuse a multiplication and an addition into one rounding. Every product that is added
to something is exact here, so fusing changes nothing. The methods are those of T. J. Dekker, "A floating-point
technique for extending the available precision" (1971), and of S. M. Rump, T. Ogita and S. Oishi, "Accurate
floating-point summation" (2008).
"""

from collections.abc import Sequence
from typing import Any

Array = Any


def keep_top_bits(x: Array, anchor: Array) -> Array:
    """Round the elements to the last place of `anchor`, a larger number. Nothing else is rounded."""
    return (x + anchor) - anchor


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its exact rounding error (Knuth)."""
    total = x + y
    virtual = total - x
    return total, (x - (total - virtual)) + (y - virtual)


def two_product(x: Array, y: Array, precision: int) -> tuple[Array, Array]:
    """Return the rounded product and its rounding error (Dekker, split by addition)."""
    shift = 2.0 ** ((precision + 1) // 2)
    x_high, y_high = keep_top_bits(x, x * shift), keep_top_bits(y, y * shift)
    x_low, y_low = x - x_high, y - y_high
    product = x * y
    return product, ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


def root(xp: Any, high: Array, low: Array, precision: int) -> tuple[Array, Array]:
    """Return the square root of `high + low`, which is at least 0, as two numbers. Its derivative at 0 is set to 0."""
    nonzero = high != 0
    high = xp.where(nonzero, high, xp.ones_like(high))
    low = xp.where(nonzero, low, xp.zeros_like(low))
    result = xp.sqrt(high)
    square, error = two_product(result, result, precision)
    correction = keep_finite(xp, (((high - square) - error) + low) / (2 * result))
    result, correction = two_sum(result, correction)
    zero = xp.zeros_like(result)
    return xp.where(nonzero, result, zero), xp.where(nonzero, keep_finite(xp, correction), zero)


def divide(xp: Any, x: Array, high: Array, low: Array, precision: int) -> Array:
    """Return the quotient `x / (high + low)`, correctly rounded except near very rare ties."""
    quotient = x / high
    product, error = two_product(quotient, high, precision)
    return quotient + keep_finite(xp, (((x - product) - error) - quotient * low) / high)


def fold(xp: Any, x: Array) -> tuple[Array, Array]:
    """Sum over the first axis by adding halves. Return the sum, and the sum of the rounding errors."""
    errors = xp.zeros_like(x[:1, ...])
    while x.shape[0] > 1:
        half = x.shape[0] // 2
        if x.shape[0] == 2 * half:
            # Do not use slices: if JAX has no float64 by default, it cannot take a second derivative through a slice.
            x, error = two_sum(*unstack(xp, xp.reshape(x, (2, half, *x.shape[1:]))))
        else:
            total, error = two_sum(x[:half, ...], x[half : 2 * half, ...])
            x = xp.concat([total, x[2 * half :, ...]])
        errors = errors + xp.sum(error, axis=0, keepdims=True)
    return xp.reshape(x, x.shape[1:]), xp.reshape(errors, x.shape[1:])


def unstack(xp: Any, x: Array) -> Sequence[Array]:
    """Return the parts of an array along its first axis."""
    # Use the tensors' own method, because torch's vmap does not support the function of array-api-compat.
    return x.unbind(0) if hasattr(x, "unbind") else xp.unstack(x)  # type: ignore[no-any-return]


def raise_two(xp: Any, exponent: Array, precision: int) -> Array:
    """Return two to an integer power, exactly, even if the library's own power has rounding errors.

    The anchor is about 1.5 times a power of two, far from the numbers where the place of the last bit changes. So it
    rounds to five bits below the result, whether the approximate power is a little smaller or larger than the right
    one. Both products in it are exact. The library's error must be below a 64th of the result.

    This works for exponents below 976 in float64 and below 109 in float32. For larger exponents, the anchor overflows.
    """
    approximate = xp.pow(xp.full_like(exponent, 2.0), exponent)
    anchor = approximate * 2.0 ** (precision - 6) + approximate * 2.0 ** (precision - 7)
    return keep_top_bits(approximate, anchor)


def multiply_out(xp: Any, x: Array, halves: int) -> Array:
    """Return `x ** (halves / 2)` for numbers above zero, with a relative error of at most `2**-53` for each product.

    Products and roots are rounded as IEEE 754 says on any library. A library's own power may be a few ulp off.
    """
    result = xp.sqrt(x) if halves % 2 else None
    count = halves // 2
    while count:
        if count % 2:
            result = x if result is None else result * x
        count //= 2
        if count:
            x = x * x
    return result


def keep_finite(xp: Any, correction: Array) -> Array:
    """Return a correction, or zero if it is not finite. An infinite result needs no correction."""
    return xp.where(xp.isfinite(correction), correction, xp.zeros_like(correction))
