"""Sums of p-th powers as two numbers, of which the second is what rounding left of the first.

Elements are split, `x = high + low`, so that the high parts, or their squares, are multiples of one number and few
enough for their sum to be exact in any order. What is left is so small that its rounding errors do not count.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from gradclip_spec import _double_words
from gradclip_spec._library import Library

__all__ = ["MODEST_POWER", "largest_magnitude", "packed", "sum_of_scaled_powers"]

Array = Any

#: The p up to which powers of 2, and sums of many of them, are within the range of float32.
MODEST_POWER = 50
#: Elements that are read at a time where values are looked at, and of one pack of small arrays.
_READ = 1 << 17


def sum_of_scaled_powers(
    library: Library, arrays: Sequence[Array], norm_type: float, scale: Array, bound: Array = 1.0
) -> tuple[Array, Array]:
    """The sum of `|x * scale| ** p`, or of `|x * scale / bound| ** p` if p is neither 1 nor 2, as (high, low).

    No scaled magnitude is above the bound; above twice the bound, if p is neither 1 nor 2 and modest.
    """
    parts = []
    for pack in packed(library, arrays):
        if not library.eager and library.has_float64:
            # Magnitudes here, and not of float64, of which JAX cannot derive them where it has none by default.
            whole = pack if norm_type == 2 else library.xp.abs(pack)
            x = library.xp.astype(whole, library.work_dtype, copy=False) * scale
            parts.append(_sums_of_whole(library, x, norm_type, bound))
            continue
        for piece in _flat_pieces(library, pack):
            flat = _times(library, library.xp.astype(piece, library.work_dtype, copy=False), scale)
            for rows in _in_rows(library, flat):
                if norm_type == 2:
                    parts.append(_sums_of_squares(library, rows))
                else:
                    parts.append(_sums_of_rows(library, _power(library, library.xp.abs(rows), norm_type, bound)))
    return _total(library, parts)


def largest_magnitude(library: Library, arrays: Sequence[Array]) -> Array:
    """The largest magnitude; NaN if an element is NaN."""
    xp = library.xp
    if library.eager:
        # Not of the magnitudes, which would be a copy of the whole; and no zero with a sign.
        ends = [0.0 + float(end) for array in arrays for end in (xp.max(array), -xp.min(array))]
        return library.scalars.xp.max(library.scalars.xp.asarray(ends))
    # Not in float64 if none of them is: where JAX has none by default, it cannot differentiate its maximum.
    each = [xp.astype(xp.max(xp.abs(array)), library.total_dtype) for array in arrays]
    return xp.astype(xp.max(xp.stack(each)), library.work_dtype)


def packed(library: Library, arrays: Sequence[Array]) -> Iterator[Array]:
    """The arrays, with small ones that are alike joined: one call for many is what makes thousands of them cheap."""
    # Those that may lie on several devices are joined only if they are of one shape and cut alike, so that every
    # element stays where it is.
    place = library.primitives.place
    join = library.xp.stack if place else functools.partial(library.xp.concat, axis=None)
    waiting: dict[Any, list[Array]] = {}
    sizes: dict[Any, int] = {}
    for array in arrays:
        size = math.prod(array.shape)
        # Sizes may be symbols, while tracing.
        if not isinstance(size, int) or size >= _READ // 8:
            yield array
            continue
        kind = (array.dtype, (array.shape, place(array)) if place else None)
        waiting.setdefault(kind, []).append(array)
        sizes[kind] = sizes.get(kind, 0) + size
        if sizes[kind] >= _READ:
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
        high, error = _double_words.fold(library.xp, library.xp.stack(highs))
        low = error + library.xp.sum(library.xp.stack([low for _, low in parts]))
        return _double_words.add(high, _double_words.finite_or_zero(library.xp, low))
    numbers = [float(number) for part in parts for number in part]
    asarray = library.scalars.xp.asarray
    if not all(map(math.isfinite, numbers)):
        return asarray(sum(float(high) for high, _ in parts)), asarray(0.0)
    try:
        high = math.fsum(numbers)
    except OverflowError:
        return asarray(math.inf), asarray(0.0)
    return asarray(high), asarray(math.fsum([*numbers, -high]))


def _sums_of_whole(library: Library, x: Array, norm_type: float, bound: Array) -> tuple[Array, Array]:
    """The sum of powers over an array that is not cut into rows, since it may lie on several devices."""
    xp, count_bits = library.xp, _bits_to_count(math.prod(x.shape))
    if norm_type != 2:
        largest = bound if norm_type == 1 else 2.0 ** (norm_type if norm_type <= MODEST_POWER else 0)
        return _split_sum(xp, _power(library, x, norm_type, bound), largest, count_bits)
    # The high parts are multiples of a quantum from bound * 2**(1 - bits) to twice that, at most 2**(bits - 1) of it.
    # So their squares are at most 2**(2 * bits - 2) squares of it, and fewer than 2**count_bits of them sum exactly.
    bits = (library.precision - count_bits) // 2
    high = _double_words.top_bits(x, bound * 2.0 ** (library.precision + 1 - bits))
    low = x - high
    # The low parts are at most half a quantum; what is left of a square, this times twice the bound.
    rest, rest_of_rest = _split_sum(xp, low * (x + high), bound * bound * 2.0 ** (2 - bits), count_bits)
    return xp.sum(high * high), rest + rest_of_rest


def _bits_to_count(size: Any) -> int:
    """Bits that are enough for a number of elements, which may be a symbol that stands for any.

    In few steps, because torch compiles each of them anew if sizes are left open.
    """
    return next(bits for bits in (10, 20, 28, 40, 60) if size < 1 << bits) if isinstance(size, int) else 40


def _split_sum(xp: Any, x: Array, bound: Array, count_bits: int) -> tuple[Array, Array]:
    """The sum of fewer than `2**count_bits` elements within the bound: that of their top bits, exact, and the rest."""
    high = _double_words.top_bits(x, bound * 2.0 ** (count_bits + 1))
    return xp.sum(high), xp.sum(x - high)


def _power(library: Library, magnitudes: Array, norm_type: float, bound: Array) -> Array:
    if norm_type == 1:
        return magnitudes
    # The derivative of a root is infinite at zero, where elements contribute nothing anyway.
    nonzero = magnitudes > 0
    ratios = library.xp.where(
        nonzero, magnitudes / (float(bound) if library.eager else bound), library.xp.ones_like(magnitudes)
    )
    power = library.xp.pow if library.eager else library.scalars.power
    return library.xp.where(
        nonzero, power(ratios, library.xp.full_like(ratios, norm_type)), library.xp.zeros_like(ratios)
    )


def _times(library: Library, x: Array, scale: Array) -> Array:
    if not library.eager:
        return x * scale
    return x if scale == 1 else x * float(scale)


def _flat_pieces(library: Library, x: Array) -> Iterator[Array]:
    """The elements as flat arrays; where values are looked at, not all at once, since flattening a view copies it."""
    width = math.prod(x.shape[1:])
    if not library.eager or not library.primitives.divisible or width * sum(x.shape[:1]) <= _READ:
        yield library.xp.reshape(x, (-1,))
        return
    if width > _READ:
        for index in range(x.shape[0]):
            yield from _flat_pieces(library, x[index, ...])
        return
    step = _READ // width
    for start in range(0, x.shape[0], step):
        yield library.xp.reshape(x[start : min(start + step, x.shape[0]), ...], (-1,))


def _row_bits(library: Library) -> int:
    """Two to this are the elements of a row: 1,024 of float64, 16 of float32."""
    return library.precision // 5


def _in_rows(library: Library, flat: Array) -> list[Array]:
    """A flat array as a matrix with rows whose sums are exact, and the rest as a row of its own."""
    width = 1 << _row_bits(library)
    whole = flat.shape[0] // width * width
    parts = [library.xp.reshape(flat[:whole], (-1, width))] if whole else []
    return parts if whole == flat.shape[0] else [*parts, library.xp.reshape(flat[whole:], (1, -1))]


def _sums_of_squares(library: Library, rows: Array) -> tuple[Array, Array]:
    """The sum of the squares of all elements as (high, low)."""
    xp = library.xp
    # As many bits as can be squared and summed over a row without a rounding.
    bits = (library.precision - _row_bits(library)) // 2
    high = _high_part(library, rows, library.precision + 1 - bits)
    low = rows - high
    return _sums(library, xp.sum(high * high, axis=1), xp.sum(low * (rows + high), axis=1))


def _sums_of_rows(library: Library, rows: Array) -> tuple[Array, Array]:
    """The sum of all elements, none of them negative, as (high, low)."""
    high = _high_part(library, rows, _row_bits(library) + 1)
    return _sums(library, library.xp.sum(high, axis=1), library.xp.sum(rows - high, axis=1))


def _high_part(library: Library, rows: Array, shift: int) -> Array:
    largest = library.xp.max(library.xp.abs(rows), axis=1, keepdims=True)
    return _double_words.top_bits(rows, largest * 2.0**shift)


def _sums(library: Library, high: Array, low: Array) -> tuple[Array, Array]:
    total, error = _double_words.fold(library.xp, high)
    return total, error + library.xp.sum(low)
