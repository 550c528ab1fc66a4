"""Norms that are not plain: roots of sums of p-th powers, with the rounding errors of the sums.

Elements are divided first, so that their powers stay in the range: by a power of two, which is exact, or for large p by
the largest of them. Of the infinity norm there is nothing to divide, and of squares not if values may be looked at and
the sum shows that it was not needed.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from gradclip_spec import _double_words
from gradclip_spec._exact_sums import MODEST_POWER, largest_magnitude, sum_of_scaled_powers
from gradclip_spec._library import Library
from gradclip_spec._scalars import FORMATS, Scalars

__all__ = ["PowerSum", "joined", "rooted", "sum_of_powers"]

Array = Any


class PowerSum(NamedTuple):
    """A sum `high + low` of p-th powers of elements, each of which was divided by `divisor * 2**exponent` first.

    The divisor is 1 if p is 1 or 2. If p is infinite, or if an element is not finite, `high` is the largest magnitude.
    """

    high: Array
    low: Array
    divisor: Array
    exponent: Array


def sum_of_powers(library: Library, arrays: Sequence[Array], norm_type: float) -> PowerSum:
    """The sum of the powers of the elements of arrays, none of them empty, by the first way that applies.

    1. There is nothing to sum. 2. Squares as they are, if values can be looked at and the sum is far from the ends of
    the range. 3. The infinity norm is the largest magnitude. 4. Else elements are scaled, as the largest one needs it.
    """
    one, zero = library.number(1.0), library.number(0.0)
    if not arrays:
        return PowerSum(zero, zero, one, zero)
    if norm_type == 2 and library.eager:
        high, low = sum_of_scaled_powers(library, arrays, norm_type, one)
        # Beside a sum in these limits, a square that underflows, or its rounding error, is too small to count.
        limit = 2.0 ** (204 if library.has_float64 else 25)
        if 1 / limit < high < limit:
            return PowerSum(high, low, one, zero)
    if not library.eager:
        arrays = library.primitives.kept_for_derivatives(arrays)
    largest = largest_magnitude(library, arrays)
    if norm_type == math.inf:
        return PowerSum(largest, zero, one, zero)
    return _scaled_by(largest, library, arrays, norm_type)


def rooted(scalars: Scalars, powers: PowerSum, norm_type: float) -> tuple[Array, Array, Array]:
    """The norm of which powers were summed, as the three numbers of a :class:`gradclip_spec._norm.Norm`.

    The first is zero, not finite, or far from the ends of the range.
    """
    xp = scalars.xp
    high, low, divisor, exponent = powers
    if norm_type == 2:
        return *_double_words.double_root(xp, high, low, scalars.precision), exponent
    if norm_type == 1:
        return high, low, exponent
    nonzero = high != 0
    if norm_type != math.inf:
        high = xp.where(nonzero, _root(scalars, high, low, norm_type) * divisor, xp.zeros_like(high))
    # What is too small for the limits, or too large, stays so.
    positive = xp.where(nonzero & xp.isfinite(high), high, xp.ones_like(high))
    own = _exponent(xp, positive, scalars.precision, exponent)
    return high * _double_words.power_of_two(xp, -own, scalars.precision), xp.zeros_like(high), exponent + own


def _root(scalars: Scalars, high: Array, low: Array, norm_type: float) -> Array:
    """The p-th root of `high + low`; of zero anything finite."""
    xp = scalars.xp
    high = xp.where(high != 0, high, xp.ones_like(high))
    root = scalars.power(high, xp.full_like(high, 1 / norm_type))
    # One step of Newton's: `1 / norm_type` is rounded, and the error of that grows with the logarithm of the sum.
    missing = (high - scalars.power(root, xp.full_like(high, norm_type))) + low
    return root + _double_words.finite_or_zero(xp, root * (missing / (norm_type * high)))


def joined(scalars: Scalars, rows: Array, norm_type: float) -> PowerSum:
    """The powers of all blocks together, each scaled for itself; each row holds the numbers of one block."""
    xp, precision = scalars.xp, scalars.precision
    high, low, divisor, exponent = (rows[:, column] for column in range(4))
    if norm_type == math.inf:
        largest = xp.max(high)
        return PowerSum(largest, xp.zeros_like(largest), xp.ones_like(largest), xp.zeros_like(largest))
    # A block of zeros has no scale to speak of, and must not decide that of the others.
    exponent = xp.where(high != 0, exponent, xp.min(exponent))
    top = xp.max(exponent)
    # A factor that is clipped here is so small that its block does not count.
    shift = xp.clip(exponent - top, scalars.negligible_exponent, 0.0)
    size = divisor * _double_words.power_of_two(xp, shift, precision)
    size = xp.where(high != 0, size, xp.min(size))
    largest = xp.max(size)
    share = size / largest
    if norm_type == 1:
        power = share
    else:
        power = share * share if norm_type == 2 else xp.pow(share, norm_type)
    # An infinity must not meet a share that has vanished beside a larger block.
    high, error = _double_words.fold(xp, xp.where(xp.isfinite(high), high * power, high))
    return PowerSum(high, error + xp.sum(low * power), largest, top)


def _scaled_by(largest: Array, library: Library, arrays: Sequence[Array], norm_type: float) -> PowerSum:
    """The sum of powers of elements, scaled as the largest of them needs it; if that is not finite, the largest."""
    scalars = library.scalars
    xp = scalars.xp
    ordinary = xp.isfinite(largest) & (largest > 0)
    positive = xp.where(ordinary, largest, xp.ones_like(largest))
    exponent = _exponent(xp, positive, library.precision)
    scale = _double_words.power_of_two(xp, -exponent, scalars.precision)
    bound = positive * scale
    if norm_type not in (1, 2) and norm_type <= MODEST_POWER:
        # Where the exponent was clipped, this is not 1.
        bound = _double_words.power_of_two(xp, xp.floor(xp.log2(bound)), scalars.precision)
    high, low = sum_of_scaled_powers(library, arrays, norm_type, scale, bound)
    zero = xp.zeros_like(positive)
    return PowerSum(
        high=xp.where(ordinary, high, largest),
        low=xp.where(ordinary, low, zero),
        divisor=bound if norm_type not in (1, 2) else xp.ones_like(positive),
        exponent=xp.where(ordinary, exponent, zero),
    )


def _exponent(xp: Any, x: Array, precision: int, other: Any = 0.0) -> Array:
    """The exponent of a number above zero.

    It is clipped so that two to it and another together, and two to minus both, are normal numbers of the format that
    has so many bits.
    """
    lower, upper = (-900.0, 1000.0) if precision == FORMATS["float64"].precision else (-105.0, 120.0)
    together = xp.floor(xp.log2(x)) + other
    return xp.where(together < lower, lower - other, xp.where(together > upper, upper - other, together - other))
