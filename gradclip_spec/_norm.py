"""Norms that neither overflow nor underflow nor drift, of arrays of any library.

The Euclidean norm is computed in one of two ways. If float64 is wider than the elements, their squares are summed in
float64, where they are exact and in range. Otherwise each row of a few hundred elements is split, `x = high + low`,
so that the squares of the high parts are exact and so is their sum in any order; what is left,
`x**2 - high**2 = low * (x + high)`, is so small that its rounding errors do not count. Rows are added by a
compensated sum. Elements are scaled by a power of two where their squares would leave the range.

Where values may be looked at, arrays are read in chunks, and scaled only when a first sum has left the safe range; so
the norm of an ordinary gradient costs one pass. Elsewhere (traced, lazy, on an accelerator) the same arithmetic is
written without a branch.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradclip_spec import _words
from gradclip_spec._library import Library, Scalars, library_of

__all__ = ["Norm", "norm_of_all", "norm_of_blocks", "norms_of_each", "powers_of_blocks"]

Array = Any

#: Elements of one chunk where arrays are read in chunks, and of one pack of small arrays.
_CHUNK = 1 << 17


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


def norm_of_all(library: Library, leaves: Sequence[Array], norm_type: float) -> Norm:
    """The p-norm of all elements of all leaves together."""
    if norm_type == 2 and _sums_plainly(library, leaves):
        return Norm(_words.root(library.scalars.xp, _sum_of_squares(library, leaves)))
    return _rooted(library.scalars, _powers(library, leaves, norm_type), norm_type)


def norms_of_each(library: Library, leaves: Sequence[Array], norm_type: float) -> Norm:
    """The p-norm of each leaf, as arrays with one element a leaf."""
    xp, of_each = library.scalars.xp, library.primitives.sums_of_each
    if norm_type == 2 and _sums_plainly(library, leaves):
        if of_each is not None and library.eager:
            return Norm(_words.root(xp, xp.asarray(of_each(leaves))))
        return Norm(_words.root(xp, xp.stack([_sum_of_squares(library, [leaf]) for leaf in leaves])))
    sums = [_powers(library, [leaf], norm_type) for leaf in leaves]
    high, low, unit, exponent = (xp.stack(parts) for parts in zip(*sums, strict=True))
    return _rooted(library.scalars, (high, low, unit, exponent), norm_type)


def norm_of_blocks(scalars: Scalars, rows: Array, norm_type: float) -> Norm:
    """The p-norm of all elements of blocks, of each of which a row of numbers is given."""
    return _rooted(scalars, _joined(scalars, rows, norm_type), norm_type)


#: A sum of p-th powers as (high, low, unit, exponent): each element was divided by `unit * 2**exponent` first.
_Powers = tuple[Array, Array, Array, Array]


def _rooted(scalars: Scalars, powers: _Powers, norm_type: float) -> Norm:
    xp = scalars.xp
    high, low, unit, exponent = powers
    if norm_type == 2:
        high, low = _words.square_root(xp, high, low, scalars.precision)
    elif norm_type not in (1, math.inf):
        nonzero = high != 0
        root = xp.pow(xp.where(nonzero, high, xp.ones_like(high)), xp.full_like(high, 1 / norm_type))
        high, low = xp.where(nonzero, root * unit, xp.zeros_like(root)), xp.zeros_like(root)
    return Norm(high, low, exponent)


def _sums_plainly(library: Library, leaves: Sequence[Array]) -> bool:
    """Whether float64 holds the sum of all squares, with bits and range to spare."""
    return library.primitives.blockwise is None and library.wide(leaves)


def _sum_of_squares(library: Library, leaves: Sequence[Array]) -> Array:
    if library.eager:
        return np.float64(library.primitives.sum_of_squares(leaves, True))
    leaves = [leaf for leaf in leaves if 0 not in leaf.shape]
    if not leaves:
        return _constant(library, 0.0)
    return library.primitives.sum_of_squares(list(_packed(library, leaves)), False)


def _powers(library: Library, leaves: Sequence[Array], norm_type: float) -> _Powers:
    one, zero = _constant(library, 1.0), _constant(library, 0.0)
    if norm_type == 2 and _sums_plainly(library, leaves):
        return _sum_of_squares(library, leaves), zero, one, zero
    leaves = [leaf for leaf in leaves if 0 not in leaf.shape]
    if not leaves:
        return zero, zero, one, zero
    if library.primitives.blockwise is not None:
        rows = library.primitives.blockwise(leaves, functools.partial(powers_of_blocks, norm_type))
        return _joined(library.scalars, library.scalars.xp.asarray(rows) if library.eager else rows, norm_type)
    if norm_type == 2 and library.eager:
        high, low = _scaled_powers(library, leaves, norm_type, one)
        # Within it, what underflows beside such a sum is too small to count.
        safe = 2.0 ** (204 if library.precision == 53 else 25)
        if 1 / safe < high < safe:
            return high, low, one, zero
    largest = _largest(library, leaves)
    if norm_type == math.inf:
        return largest, zero, one, zero
    return _finite_or_largest(library, leaves, norm_type, largest)


def _finite_or_largest(library: Library, leaves: Sequence[Array], norm_type: float, largest: Array) -> _Powers:
    """The sum of powers of the scaled elements; that of elements that are not all finite is their largest."""
    scalars = library.scalars
    xp = scalars.xp
    ordinary = xp.isfinite(largest) & (largest > 0)
    # The scale itself must stay well inside the range, also when two to its exponent is computed.
    bounds = (-900.0, 1000.0) if library.precision == 53 else (-105.0, 120.0)
    safe = xp.where(ordinary, largest, xp.ones_like(largest))
    exponent = xp.clip(xp.floor(xp.log2(safe)), *bounds)
    scale = _words.power_of_two(xp, -exponent, scalars.precision)
    bound = safe * scale
    unit = bound if norm_type not in (1, 2) else xp.ones_like(safe)
    high, low = _scaled_powers(library, leaves, norm_type, scale, bound)
    zero = xp.zeros_like(safe)
    return (
        xp.where(ordinary, high, largest),
        xp.where(ordinary, low, zero),
        unit,
        xp.where(ordinary, exponent, zero),
    )


def powers_of_blocks(norm_type: float, blocks: Sequence[Array]) -> _Powers:
    """Four numbers from which, and those of all other blocks, :func:`norm_of_blocks` makes the norm of all."""
    # Blocks are arrays of a library of their own, whose values may be at hand where the whole is lazy.
    library = library_of(blocks, blocks)
    with library.primitives.context():
        return _powers(library, blocks, norm_type)


def _joined(scalars: Scalars, rows: Array, norm_type: float) -> _Powers:
    """The powers of all blocks together, each of which has been scaled for itself."""
    xp, precision, limit = scalars.xp, scalars.precision, scalars.largest_exponent
    high, low, unit, exponent = (rows[:, column] for column in range(4))
    # A block of zeros has no scale to speak of, and must not decide that of the others.
    exponent = xp.where(high != 0, exponent, xp.min(exponent))
    top = xp.max(exponent)
    size = unit * _words.power_of_two(xp, xp.clip(exponent - top, -15.0 / 16 * limit, 0.0), precision)
    size = xp.where(high != 0, size, xp.min(size))
    largest = xp.max(size)
    if norm_type == math.inf:
        return xp.max(high), xp.zeros_like(top), largest, top
    share = size / largest
    power = share if norm_type == 1 else share * share if norm_type == 2 else xp.pow(share, norm_type)
    # An infinity must not meet a share that has vanished beside a larger block.
    high, error = _words.fold(xp, xp.where(xp.isfinite(high), high * power, high))
    return high, error + xp.sum(low * power), largest, top


def _constant(library: Library, value: float) -> Array:
    if library.eager:
        return np.float64(value)
    return library.xp.asarray(value, dtype=library.work, device=library.device)


def _packed(library: Library, leaves: Sequence[Array]) -> Iterator[Array]:
    """The leaves, with small ones that are alike joined: one call for many is what makes thousands of them cheap."""
    # Those that may lie on several devices are joined only if they are of one shape and cut alike, so that every
    # element stays where it is.
    join = functools.partial(library.xp.concat, axis=None) if library.eager else library.xp.stack
    waiting: dict[Any, list[Array]] = {}
    sizes: dict[Any, int] = {}
    for leaf in leaves:
        size = math.prod(leaf.shape)
        # Sizes may be symbols, while tracing.
        if not isinstance(size, int) or size >= _CHUNK // 8:
            yield leaf
            continue
        kind = (leaf.dtype, None if library.eager else (leaf.shape, library.primitives.place(leaf)))
        waiting.setdefault(kind, []).append(leaf)
        sizes[kind] = sizes.get(kind, 0) + size
        if sizes[kind] >= _CHUNK:
            yield join(waiting.pop(kind))
            del sizes[kind]
    for group in waiting.values():
        yield group[0] if len(group) == 1 else join(group)


def _total(library: Library, parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The sum of numbers given as (high, low)."""
    if not library.eager:
        highs = [high for high, _ in parts]
        # As many as can be folded in halves to the end.
        highs += [library.xp.zeros_like(highs[0])] * ((1 << (len(highs) - 1).bit_length()) - len(highs))
        high, error = _words.fold(library.xp, library.xp.stack(highs))
        low = error + library.xp.sum(library.xp.stack([low for _, low in parts]))
        return _words.add(high, _words.finite_or_zero(library.xp, low))
    numbers = [float(number) for part in parts for number in part]
    asarray = library.scalars.xp.asarray
    if not all(map(math.isfinite, numbers)):
        return asarray(sum(float(high) for high, _ in parts)), asarray(0.0)
    try:
        high = math.fsum(numbers)
    except OverflowError:
        return asarray(math.inf), asarray(0.0)
    return asarray(high), asarray(math.fsum([*numbers, -high]))


def _largest(library: Library, leaves: Sequence[Array]) -> Array:
    """The largest magnitude; NaN if there is any."""
    xp = library.xp
    each = [xp.astype(xp.max(xp.abs(leaf)), library.work) for leaf in leaves]
    if library.eager:
        return library.scalars.xp.max(library.scalars.xp.asarray([float(number) for number in each]))
    return xp.max(xp.stack(each))


def _scaled_powers(
    library: Library, leaves: Sequence[Array], norm_type: float, scale: Array, bound: Array = 1.0
) -> tuple[Array, Array]:
    """The sum of `|x * scale| ** p`, or of `|x * scale / bound| ** p` if p is neither 1 nor 2, as (high, low)."""
    parts = []
    for pack in _packed(library, leaves):
        if not library.eager and library.precision == 53:
            x = library.xp.astype(pack, library.work, copy=False) * scale
            parts.append(_whole_sums(library, x, norm_type, bound))
            continue
        for part in _chunks(library, pack):
            rows = _rows(library, _times(library, library.xp.astype(part, library.work, copy=False), scale))
            if norm_type == 2:
                parts += [_square_sums(library, row) for row in rows]
            else:
                parts += [_row_sums(library, _power(library, row, norm_type, bound)) for row in rows]
    return _total(library, parts)


def _whole_sums(library: Library, x: Array, norm_type: float, bound: Array) -> tuple[Array, Array]:
    """The sum over an array without rows, so that an array on several devices is not cut anew.

    What is exact in a row of a thousand elements by its own largest is exact here in the whole, with fewer bits, by
    the bound of all; so what is left over counts for more, and is summed in the same way.
    """
    xp, count = library.xp, math.prod(x.shape).bit_length()
    if norm_type != 2:
        return _split_sum(xp, _power(library, x, norm_type, bound), bound if norm_type == 1 else 1.0, count)
    bits = (library.precision - count) // 2
    high = _words.top_bits(x, bound * 2.0 ** (library.precision + 1 - bits))
    low = x - high
    rest, rest_of_rest = _split_sum(xp, low * (x + high), bound * bound * 2.0 ** (2 - bits), count)
    return xp.sum(high * high), rest + rest_of_rest


def _split_sum(xp: Any, x: Array, bound: Array, count: int) -> tuple[Array, Array]:
    """The sum of fewer than `2**count` elements within the bound: that of their top bits, exact, and of the rest."""
    high = _words.top_bits(x, bound * 2.0 ** (count + 1))
    return xp.sum(high), xp.sum(x - high)


def _power(library: Library, x: Array, norm_type: float, unit: Array) -> Array:
    magnitudes = library.xp.abs(x)
    if norm_type == 1:
        return magnitudes
    # The derivative of a root is infinite at zero, where elements contribute nothing anyway.
    nonzero = magnitudes > 0
    safe = library.xp.where(
        nonzero, magnitudes / (float(unit) if library.eager else unit), library.xp.ones_like(magnitudes)
    )
    return library.xp.where(
        nonzero, library.xp.pow(safe, library.xp.full_like(safe, norm_type)), library.xp.zeros_like(safe)
    )


def _times(library: Library, x: Array, scale: Array) -> Array:
    if not library.eager:
        return x * scale
    return x if scale == 1 else x * float(scale)


def _chunks(library: Library, x: Array) -> Iterator[Array]:
    """The elements as flat arrays; never all at once where values are at hand, since flattening a view copies it."""
    width = math.prod(x.shape[1:])
    if not library.eager or width * sum(x.shape[:1]) <= _CHUNK:
        yield library.xp.reshape(x, (-1,))
        return
    if width > _CHUNK:
        for index in range(x.shape[0]):
            yield from _chunks(library, x[index, ...])
        return
    step = _CHUNK // width
    for start in range(0, x.shape[0], step):
        yield library.xp.reshape(x[start : min(start + step, x.shape[0]), ...], (-1,))


def _rows(library: Library, flat: Array) -> list[Array]:
    """A flat array as a matrix with rows of the width whose sums are exact, and the rest as a row of its own."""
    width = 1 << library.precision // 5
    whole = flat.shape[0] // width * width
    parts = [library.xp.reshape(flat[:whole], (-1, width))] if whole else []
    return parts if whole == flat.shape[0] else [*parts, library.xp.reshape(flat[whole:], (1, -1))]


def _square_sums(library: Library, rows: Array) -> tuple[Array, Array]:
    """The sum of the squares of all elements as (high, low)."""
    xp = library.xp
    # As many bits as can be squared and summed over a row without a rounding.
    bits = (library.precision - library.precision // 5) // 2
    high = _high_part(library, rows, library.precision + 1 - bits)
    low = rows - high
    return _sums(library, xp.sum(high * high, axis=1), xp.sum(low * (rows + high), axis=1))


def _row_sums(library: Library, rows: Array) -> tuple[Array, Array]:
    """The sum of all elements, none of them negative, as (high, low)."""
    high = _high_part(library, rows, library.precision // 5 + 1)
    return _sums(library, library.xp.sum(high, axis=1), library.xp.sum(rows - high, axis=1))


def _high_part(library: Library, rows: Array, shift: int) -> Array:
    largest = library.xp.max(library.xp.abs(rows), axis=1, keepdims=True)
    return _words.top_bits(rows, largest * 2.0**shift)


def _sums(library: Library, high: Array, low: Array) -> tuple[Array, Array]:
    total, error = _words.fold(library.xp, high)
    return total, error + library.xp.sum(low)
