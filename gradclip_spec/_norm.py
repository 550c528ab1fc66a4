"""Norms that neither overflow nor underflow nor drift, of arrays of any library.

A Euclidean norm of elements narrower than float64 is the root of a sum of squares in float64, which has bits and range
to spare; how that sum is made is up to the library's primitives (see `_primitives`). Any other norm is the root of a
sum of powers with its rounding errors (see `_powers`), of elements that are scaled by a power of two wherever their
powers could leave the range. Of arrays in blocks, four numbers of each block are enough.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gradclip_spec import _words
from gradclip_spec._library import Library, Scalars, library_of
from gradclip_spec._powers import largest_magnitude, packed, scaled_powers

__all__ = ["Norm", "norm_of_all", "norm_of_blocks", "norms_of_each", "powers_of_blocks"]

Array = Any


@dataclass(frozen=True)
class Norm:
    """The number `(high + low) * 2**exponent`, or an array of such numbers.

    Without `low` and `exponent` it is `high`, which has bits and range to spare beside those of the gradients.
    """

    high: Array
    low: Array = None
    exponent: Array = None

    def value(self, scalars: Scalars) -> Array:
        """The norm as one rounded number."""
        if self.exponent is None:
            return self.high
        half = scalars.xp.floor(self.exponent / 2)
        first = _words.power_of_two(scalars.xp, half, scalars.precision)
        second = _words.power_of_two(scalars.xp, self.exponent - half, scalars.precision)
        return self.high * first * second


class Powers(NamedTuple):
    """A sum `high + low` of p-th powers of elements, each of which was divided by `unit * 2**exponent` first.

    The unit is 1 if p is 1 or 2. If p is infinite, or if an element is not finite, `high` is the largest magnitude.
    """

    high: Array
    low: Array
    unit: Array
    exponent: Array


def norm_of_all(library: Library, arrays: Sequence[Array], norm_type: float) -> Norm:
    """The p-norm of all elements of all arrays together."""
    if _is_plain(library, arrays, norm_type):
        return Norm(_words.root(library.scalars.xp, _sum_of_squares(library, arrays)))
    return _rooted(library.scalars, _powers(library, arrays, norm_type), norm_type)


def norms_of_each(library: Library, arrays: Sequence[Array], norm_type: float) -> Norm:
    """The p-norm of each array, as numbers with one element an array."""
    xp, sums_of_each = library.scalars.xp, library.primitives.sums_of_each
    if _is_plain(library, arrays, norm_type):
        if sums_of_each is not None and library.eager:
            return Norm(_words.root(xp, xp.asarray(sums_of_each(arrays))))
        return Norm(_words.root(xp, xp.stack([_sum_of_squares(library, [array]) for array in arrays])))
    powers = [_powers(library, [array], norm_type) for array in arrays]
    return _rooted(library.scalars, Powers(*map(xp.stack, zip(*powers, strict=True))), norm_type)


def norm_of_blocks(scalars: Scalars, rows: Array, norm_type: float) -> Norm:
    """The p-norm of all elements of blocks, of each of which :func:`powers_of_blocks` made a row."""
    return _rooted(scalars, _joined(scalars, rows, norm_type), norm_type)


def powers_of_blocks(norm_type: float, blocks: Sequence[Array]) -> Powers:
    """The four numbers of some blocks from which, and those of all others, the norm of all is made."""
    # Blocks are arrays of a library of their own, whose values may be at hand where the whole is lazy.
    library = library_of(blocks, blocks)
    with library.primitives.context():
        return _powers(library, blocks, norm_type)


def _rooted(scalars: Scalars, powers: Powers, norm_type: float) -> Norm:
    xp = scalars.xp
    high, low, unit, exponent = powers
    if norm_type == 2:
        high, low = _words.square_root(xp, high, low, scalars.precision)
    elif norm_type not in (1, math.inf):
        nonzero = high != 0
        root = scalars.power(xp.where(nonzero, high, xp.ones_like(high)), xp.full_like(high, 1 / norm_type))
        high, low = xp.where(nonzero, root * unit, xp.zeros_like(root)), xp.zeros_like(root)
    return Norm(high, low, exponent)


def _is_plain(library: Library, arrays: Sequence[Array], norm_type: float) -> bool:
    """Whether float64 holds the sum of all squares, with bits and range to spare."""
    return norm_type == 2 and library.primitives.blockwise is None and library.wider_than(arrays)


def _sum_of_squares(library: Library, arrays: Sequence[Array]) -> Array:
    if library.eager:
        return np.float64(library.primitives.sum_of_squares_now(arrays))
    arrays = _not_empty(arrays)
    return library.primitives.sum_of_squares(list(packed(library, arrays))) if arrays else _constant(library, 0.0)


def _powers(library: Library, arrays: Sequence[Array], norm_type: float) -> Powers:
    """The sum of powers, in the first of these ways that there is.

    1. Plain float64. 2. Nothing to sum. 3. Of arrays in blocks, from the numbers of each block. 4. Squares as they are,
    if values can be looked at and the sum is far from the ends of the range. 5. The infinity norm is the largest
    magnitude. 6. Anything else is scaled by the largest magnitude first.
    """
    one, zero = _constant(library, 1.0), _constant(library, 0.0)
    if _is_plain(library, arrays, norm_type):
        return Powers(_sum_of_squares(library, arrays), zero, one, zero)
    arrays = _not_empty(arrays)
    if not arrays:
        return Powers(zero, zero, one, zero)
    if library.primitives.blockwise is not None:
        rows = library.primitives.blockwise(arrays, functools.partial(powers_of_blocks, norm_type))
        return _joined(library.scalars, library.scalars.xp.asarray(rows) if library.eager else rows, norm_type)
    if norm_type == 2 and library.eager:
        high, low = scaled_powers(library, arrays, norm_type, one)
        # Beside a sum in these bounds, a square that underflows is too small to count.
        limit = 2.0 ** (204 if library.has_float64 else 25)
        if 1 / limit < high < limit:
            return Powers(high, low, one, zero)
    largest = largest_magnitude(library, arrays)
    if norm_type == math.inf:
        return Powers(largest, zero, one, zero)
    return _scaled(library, arrays, norm_type, largest)


def _scaled(library: Library, arrays: Sequence[Array], norm_type: float, largest: Array) -> Powers:
    """The sum of powers of the scaled elements; that of elements that are not all finite is their largest."""
    scalars = library.scalars
    xp = scalars.xp
    ordinary = xp.isfinite(largest) & (largest > 0)
    # What two to this exponent, and to its negative, must be: normal numbers, with room for a product of two.
    bounds = (-900.0, 1000.0) if library.has_float64 else (-105.0, 120.0)
    positive = xp.where(ordinary, largest, xp.ones_like(largest))
    exponent = xp.clip(xp.floor(xp.log2(positive)), *bounds)
    scale = _words.power_of_two(xp, -exponent, scalars.precision)
    bound = positive * scale
    high, low = scaled_powers(library, arrays, norm_type, scale, bound)
    zero = xp.zeros_like(positive)
    return Powers(
        high=xp.where(ordinary, high, largest),
        low=xp.where(ordinary, low, zero),
        unit=bound if norm_type not in (1, 2) else xp.ones_like(positive),
        exponent=xp.where(ordinary, exponent, zero),
    )


def _joined(scalars: Scalars, rows: Array, norm_type: float) -> Powers:
    """The powers of all blocks together, each of which has been scaled for itself."""
    xp, precision, limit = scalars.xp, scalars.precision, scalars.largest_exponent
    high, low, unit, exponent = (rows[:, column] for column in range(4))
    # A block of zeros has no scale to speak of, and must not decide that of the others.
    exponent = xp.where(high != 0, exponent, xp.min(exponent))
    top = xp.max(exponent)
    # A factor that is clipped here is so small that its block does not count.
    size = unit * _words.power_of_two(xp, xp.clip(exponent - top, -15.0 / 16 * limit, 0.0), precision)
    size = xp.where(high != 0, size, xp.min(size))
    largest = xp.max(size)
    if norm_type == math.inf:
        return Powers(xp.max(high), xp.zeros_like(top), largest, top)
    share = size / largest
    power = share if norm_type == 1 else share * share if norm_type == 2 else xp.pow(share, norm_type)
    # An infinity must not meet a share that has vanished beside a larger block.
    high, error = _words.fold(xp, xp.where(xp.isfinite(high), high * power, high))
    return Powers(high, error + xp.sum(low * power), largest, top)


def _not_empty(arrays: Sequence[Array]) -> list[Array]:
    return [array for array in arrays if 0 not in array.shape]


def _constant(library: Library, value: float) -> Array:
    if library.eager:
        return np.float64(value)
    return library.xp.asarray(value, dtype=library.work, device=library.device)
