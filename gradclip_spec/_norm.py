"""Norms that neither overflow nor underflow nor drift, of arrays of any library.

A Euclidean norm of elements narrower than float64 is plain, if there is float64 and they are not in blocks: the root of
a sum of squares in it, which has bits and range to spare. How that sum is made is up to the library's primitives (see
`_primitives`). Any other norm is made from a sum of powers with its rounding errors (see `_powers`); of arrays in
blocks, from four numbers of each block.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradclip_spec import _double_words
from gradclip_spec._exact_sums import packed
from gradclip_spec._float32_sums import ERROR_OF_NORM
from gradclip_spec._library import Library, library_of
from gradclip_spec._powers import PowerSum, joined, rooted, sum_of_powers
from gradclip_spec._scalars import Scalars

__all__ = ["Norm", "norm_of_all", "norms_of_each", "powers_of_blocks"]

Array = Any


@dataclass(frozen=True)
class Norm:
    """The number `(high + low) * 2**exponent`, or an array of such numbers; a plain norm is `high` alone."""

    high: Array
    low: Array = None
    exponent: Array = None
    #: How far it may be off, relative to itself; roundings of float64 do not count.
    error: float = 0.0

    @property
    def plain(self) -> bool:
        """Whether one number in float64 is enough for each norm."""
        return self.exponent is None

    def value(self, scalars: Scalars) -> Array:
        """The norm as one rounded number."""
        if self.plain:
            return self.high
        # In two halves, because a power of two may not reach as far as the exponent does.
        half = scalars.xp.floor(self.exponent / 2)
        first = _double_words.power_of_two(scalars.xp, half, scalars.precision)
        second = _double_words.power_of_two(scalars.xp, self.exponent - half, scalars.precision)
        return self.high * first * second


def norm_of_all(library: Library, arrays: Sequence[Array], norm_type: float) -> Norm:
    """The p-norm of all elements of all arrays together."""
    if _is_plain(library, arrays, norm_type):
        squares, error = _sum_of_squares(library, arrays)
        # A root is off by half of what its square is.
        return Norm(_plain_root(library.scalars.xp, squares), error=error / 2)
    return _rooted(library, _powers_of_all(library, arrays, norm_type), norm_type)


def norms_of_each(library: Library, arrays: Sequence[Array], norm_type: float) -> Norm:
    """The p-norm of each array, as numbers with one element an array."""
    xp = library.scalars.xp
    if _is_plain(library, arrays, norm_type):
        if library.eager:
            sums = library.primitives.sums_of_each(arrays)
            totals, error = xp.asarray([each.value for each in sums]), max(each.relative_error for each in sums)
        else:
            totals, error = xp.stack([_sum_of_squares(library, [array])[0] for array in arrays]), 0.0
        return Norm(_plain_root(xp, totals), error=error / 2)
    powers = [_powers_of_all(library, [array], norm_type) for array in arrays]
    return _rooted(library, PowerSum(*map(xp.stack, zip(*powers, strict=True))), norm_type)


def powers_of_blocks(norm_type: float, blocks: Sequence[Array]) -> PowerSum:
    """The four numbers of some blocks from which, and those of all others, the norm of all is made."""
    # Blocks are arrays of a library of their own, whose values may be at hand where the whole is lazy.
    library = library_of(blocks, blocks)
    with library.primitives.context():
        if _is_plain(library, blocks, norm_type):
            one, zero = library.number(1.0), library.number(0.0)
            return PowerSum(_sum_of_squares(library, blocks)[0], zero, one, zero)
        return _powers_of_all(library, blocks, norm_type)


def _rooted(library: Library, powers: PowerSum, norm_type: float) -> Norm:
    numbers = rooted(library.scalars, powers, norm_type)
    # A sum of powers has no error that matters, unless it is of blocks, whose errors are not among their numbers.
    return Norm(*numbers, error=ERROR_OF_NORM if library.in_blocks else 0.0)


def _is_plain(library: Library, arrays: Sequence[Array], norm_type: float) -> bool:
    """Whether float64 holds the sum of all squares, with bits and range to spare, and no shards send theirs."""
    return norm_type == 2 and not library.in_blocks and library.narrower_than_float64(arrays)


def _plain_root(xp: Any, x: Array) -> Array:
    """The square root of a float64 number, zero or at least `2**-1000`. The rest is for derivatives and compilers.

    The derivative at zero is zero, not infinite. Zero is recognised by the root and not by `x`: what is cheap, a
    compiler computes anew for each array that is multiplied in the end, which takes quadratic time and code, but a root
    only once.
    """
    least = 2.0**-1000
    result = xp.sqrt(xp.where(x < least, xp.full_like(x, least), x))
    return xp.where(result <= 2.0**-500, xp.zeros_like(result), result)


def _sum_of_squares(library: Library, arrays: Sequence[Array]) -> tuple[Array, float]:
    """The sum of the squares of all elements, and how far it may be off, relative to itself."""
    if library.eager:
        squares = library.primitives.sum_of_squares_eager(arrays)
        return np.float64(squares.value), squares.relative_error
    arrays = _not_empty(arrays)
    if not arrays:
        return library.number(0.0), 0.0
    return library.primitives.sum_of_squares_lazy(list(packed(library, arrays))), 0.0


def _powers_of_all(library: Library, arrays: Sequence[Array], norm_type: float) -> PowerSum:
    arrays = _not_empty(arrays)
    rows_of_blocks = library.primitives.rows_of_blocks
    if rows_of_blocks is None or not arrays:
        return sum_of_powers(library, arrays, norm_type)
    rows = rows_of_blocks(arrays, functools.partial(powers_of_blocks, norm_type))
    return joined(library.scalars, library.scalars.xp.asarray(rows) if library.eager else rows, norm_type)


def _not_empty(arrays: Sequence[Array]) -> list[Array]:
    return [array for array in arrays if 0 not in array.shape]
