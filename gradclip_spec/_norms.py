"""Norms on the array API alone, without looking at a value: they neither overflow nor underflow nor drift.

A Euclidean norm of elements narrower than float64 is *simple*, if there is float64: the root of a sum of squares in it,
which has bits and range to spare. Any other norm is made in four steps, each a function here: scale the elements by
the largest of them so that their powers stay in range, sum the powers with their rounding errors, take the root, and
keep the scale apart. Elements are split, `x = high + low`, so that the high parts, or their squares, are multiples of
one number and few enough for their sum to be exact in any order. Rounding what is left does not count: see
`_sum_whole` for the bound.

`work` is the backend of one call (`backends.base.Backend`): its library `xp`, its `format`, and a few primitives.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gradclip_spec._arithmetic import (
    FORMATS,
    drop_nonfinite,
    fold,
    keep_top_bits,
    power_of_two,
    root,
    two_product,
    two_sum,
)

__all__ = ["Norm", "PowerSum", "join", "pack", "simple_root", "sum_of_powers", "take_root"]

Array = Any

#: The p up to which powers of 2, and sums of many of them, are within the range of float32.
_MODEST_POWER = 50
#: Elements of one pack of small arrays.
_PACK = 1 << 17


class Norm(NamedTuple):
    """The number `(high + low) * 2**exponent`, or an array of such numbers; a simple norm is `high` alone."""

    high: Array
    low: Array = None
    exponent: Array = None


class PowerSum(NamedTuple):
    """A sum `high + low` of p-th powers of elements, each of which was divided by `divisor * 2**exponent` first.

    The divisor is 1 if p is 1 or 2. If p is infinite, or if an element is not finite, `high` is the largest magnitude.
    """

    high: Array
    low: Array
    divisor: Array
    exponent: Array


def simple_root(xp: Any, x: Array) -> Array:
    """Return the square root of a float64 number, zero or at least `2**-1000`.

    The derivative at zero is zero, not infinite. Zero is recognised by the root and not by `x`: what is cheap, a
    compiler computes anew for each array that is multiplied in the end, which takes quadratic time and code, but a root
    only once.
    """
    least = 2.0**-1000
    result = xp.sqrt(xp.where(x < least, xp.full_like(x, least), x))
    return xp.where(result <= 2.0**-500, xp.zeros_like(result), result)


def sum_of_powers(work: Any, arrays: Sequence[Array], norm_type: float) -> PowerSum:
    """Return the sum of the powers of the elements of arrays, none of them empty."""
    xp, one, zero = work.xp, work.number(1.0), work.number(0.0)
    if not arrays:
        return PowerSum(zero, zero, one, zero)
    arrays = work.keep_for_derivatives(arrays)
    # Not in float64 if none of them is: where JAX has none by default, it cannot differentiate its maximum.
    each = [xp.astype(work.find_largest(array), work.total_dtype) for array in arrays]
    largest = xp.astype(xp.max(xp.stack(each)), work.dtype)
    if norm_type == math.inf:
        return PowerSum(largest, zero, one, zero)
    ordinary = xp.isfinite(largest) & (largest > 0)
    positive = xp.where(ordinary, largest, xp.ones_like(largest))
    exponent = _exponent(xp, positive, work.format.precision)
    scale = power_of_two(xp, -exponent, work.format.precision)
    bound = positive * scale
    if norm_type not in (1, 2) and norm_type <= _MODEST_POWER:
        # Where the exponent was clipped, this is not 1.
        bound = power_of_two(xp, xp.floor(xp.log2(bound)), work.format.precision)
    high, low = _sum_scaled(work, arrays, norm_type, scale, bound)
    zero = xp.zeros_like(positive)
    return PowerSum(
        high=xp.where(ordinary, high, largest),
        low=xp.where(ordinary, low, zero),
        divisor=bound if norm_type not in (1, 2) else xp.ones_like(positive),
        exponent=xp.where(ordinary, exponent, zero),
    )


def take_root(work: Any, powers: PowerSum, norm_type: float) -> Norm:
    """Return the norm of which powers were summed: `high` is zero, not finite, or far from the ends of the range."""
    xp, precision = work.xp, work.format.precision
    high, low, divisor, exponent = powers
    if norm_type == 2:
        return Norm(*root(xp, high, low, precision), exponent)
    if norm_type == 1:
        return Norm(high, low, exponent)
    nonzero = high != 0
    if norm_type != math.inf:
        high = xp.where(nonzero, _other_root(work, high, low, norm_type) * divisor, xp.zeros_like(high))
    # What is too small for the limits, or too large, stays so.
    positive = xp.where(nonzero & xp.isfinite(high), high, xp.ones_like(high))
    own = _exponent(xp, positive, precision, exponent)
    return Norm(high * power_of_two(xp, -own, precision), xp.zeros_like(high), exponent + own)


def _other_root(work: Any, high: Array, low: Array, norm_type: float) -> Array:
    """Return the p-th root of `high + low`; of zero anything finite."""
    xp = work.xp
    high = xp.where(high != 0, high, xp.ones_like(high))
    result = work.power(high, xp.full_like(high, 1 / norm_type))
    # One step of Newton's: `1 / norm_type` is rounded, and the error of that grows with the logarithm of the sum.
    missing = (high - work.power(result, xp.full_like(high, norm_type))) + low
    return result + drop_nonfinite(xp, result * (missing / (norm_type * high)))


def join(work: Any, rows: Array, norm_type: float) -> PowerSum:
    """Return the powers of all blocks together, each scaled for itself; each row holds the `PowerSum` of one block."""
    xp, precision = work.xp, work.format.precision
    high, low, divisor, exponent = (rows[:, column] for column in range(4))
    if norm_type == math.inf:
        largest = xp.max(high)
        return PowerSum(largest, xp.zeros_like(largest), xp.ones_like(largest), xp.zeros_like(largest))
    # A block of zeros has no scale to speak of, and must not decide that of the others.
    exponent = xp.where(high != 0, exponent, xp.min(exponent))
    top = xp.max(exponent)
    # A factor that is clipped here is so small that its block does not count.
    shift = xp.clip(exponent - top, work.format.negligible_exponent, 0.0)
    size = divisor * power_of_two(xp, shift, precision)
    size = xp.where(high != 0, size, xp.min(size))
    largest = xp.max(size)
    share = size / largest
    if norm_type == 1:
        power = share
    else:
        power = share * share if norm_type == 2 else xp.pow(share, xp.full_like(share, norm_type))
    # An infinity must not meet a share that has vanished beside a larger block.
    high, error = fold(xp, xp.where(xp.isfinite(high), high * power, high))
    return PowerSum(high, error + xp.sum(low * power), largest, top)


def pack(work: Any, arrays: Sequence[Array]) -> Iterator[Array]:
    """Yield the arrays, small ones that are alike joined: one call for many is what makes thousands of them cheap."""
    waiting: dict[Any, list[Array]] = {}
    sizes: dict[Any, int] = {}
    for array in arrays:
        size = math.prod(array.shape)
        # Sizes may be symbols, while tracing.
        if not isinstance(size, int) or size >= _PACK // 8:
            yield array
            continue
        kind = (array.dtype, work.place(array))
        waiting.setdefault(kind, []).append(array)
        sizes[kind] = sizes.get(kind, 0) + size
        if sizes[kind] >= _PACK:
            yield work.join_alike(waiting.pop(kind))
            del sizes[kind]
    for group in waiting.values():
        yield group[0] if len(group) == 1 else work.join_alike(group)


def _exponent(xp: Any, x: Array, precision: int, other: Any = 0.0) -> Array:
    """Return the exponent of a number above zero.

    It is clipped so that two to it and another together, and two to minus both, are normal numbers of the format that
    has so many bits.
    """
    lower, upper = (-900.0, 1000.0) if precision == FORMATS["float64"].precision else (-105.0, 120.0)
    together = xp.floor(xp.log2(x)) + other
    return xp.where(together < lower, lower - other, xp.where(together > upper, upper - other, together - other))


def _sum_scaled(
    work: Any, arrays: Sequence[Array], norm_type: float, scale: Array, bound: Array
) -> tuple[Array, Array]:
    """Return the sum of `|x * scale| ** p`, or of `|x * scale / bound| ** p` if p is neither 1 nor 2, as (high, low).

    No scaled magnitude is above the bound; above twice the bound, if p is neither 1 nor 2 and modest.
    """
    parts = []
    for array in pack(work, arrays):
        # Magnitudes here, and not of float64, of which JAX cannot derive them where it has none by default.
        whole = array if norm_type == 2 else work.xp.abs(array)
        x = work.xp.astype(whole, work.dtype, copy=False) * scale
        parts.append((_sum_whole if work.has_float64 else _sum_folded)(work, x, norm_type, bound))
    highs = [high for high, _ in parts]
    # As many as can be folded in halves to the end.
    highs += [work.xp.zeros_like(highs[0])] * ((1 << (len(highs) - 1).bit_length()) - len(highs))
    high, error = fold(work.xp, work.xp.stack(highs))
    low = error + work.xp.sum(work.xp.stack([low for _, low in parts]))
    return two_sum(high, drop_nonfinite(work.xp, low))


def _sum_whole(work: Any, x: Array, norm_type: float, bound: Array) -> tuple[Array, Array]:
    """Return the sum of powers over an array that is not cut into rows, since it may lie on several devices.

    With b bits of the count and `h = (53 - b) // 2`, the high parts are multiples of a quantum q from
    `bound * 2**(1 - h)` to twice that, at most `2**(h - 1)` of it. So their squares are at most `2**(2 * h - 2)` times
    q squared, and fewer than `2**b` of them sum exactly. The low parts are at most q / 2; what is left of a square,
    this times twice the bound, is split and summed once more, and what is left then is below `2**(1 - h - 53 + b)` of
    the largest square. Its rounding does not count.
    """
    xp, count_bits = work.xp, _bits_to_count(math.prod(x.shape))
    if norm_type != 2:
        largest = bound if norm_type == 1 else 2.0 ** (norm_type if norm_type <= _MODEST_POWER else 0)
        return _sum_split(xp, _raise_to_power(work, x, norm_type, bound), largest, count_bits)
    bits = (work.format.precision - count_bits) // 2
    high = keep_top_bits(x, bound * 2.0 ** (work.format.precision + 1 - bits))
    low = x - high
    rest, rest_of_rest = _sum_split(xp, low * (x + high), bound * bound * 2.0 ** (2 - bits), count_bits)
    return xp.sum(high * high), rest + rest_of_rest


def _sum_folded(work: Any, x: Array, norm_type: float, bound: Array) -> tuple[Array, Array]:
    """Return the sum of powers in float32, which has too few bits to split: every rounding error is added up instead.

    TwoProduct and TwoSum give each error exactly (Ogita, Rump, Oishi, Accurate Sum and Dot Product, 2005). An error is
    at most `2**-24` of what it belongs to; adding up n of them takes at most `n * 2**-48` of the sum, and less where a
    library adds in halves or blocks.
    """
    x = work.xp.reshape(x, (-1,))
    if norm_type == 2:
        powers, errors = two_product(x, x, work.format.precision)
        high, low = fold(work.xp, powers)
        return high, low + work.xp.sum(errors)
    return fold(work.xp, _raise_to_power(work, x, norm_type, bound))


def _bits_to_count(size: Any) -> int:
    """Return bits that are enough for a number of elements, which may be a symbol that stands for any.

    In few steps, because torch compiles each of them anew if sizes are left open.
    """
    return next(bits for bits in (10, 20, 28, 40, 60) if size < 1 << bits) if isinstance(size, int) else 40


def _sum_split(xp: Any, x: Array, bound: Array, count_bits: int) -> tuple[Array, Array]:
    """Return the sum of fewer than `2**count_bits` elements within the bound: exact of their top bits, and the rest."""
    high = keep_top_bits(x, bound * 2.0 ** (count_bits + 1))
    return xp.sum(high), xp.sum(x - high)


def _raise_to_power(work: Any, magnitudes: Array, norm_type: float, bound: Array) -> Array:
    if norm_type == 1:
        return magnitudes
    # The derivative of a root is infinite at zero, where elements contribute nothing anyway.
    xp, nonzero = work.xp, magnitudes > 0
    ratios = xp.where(nonzero, magnitudes / bound, xp.ones_like(magnitudes))
    return xp.where(nonzero, work.power(ratios, xp.full_like(ratios, norm_type)), xp.zeros_like(ratios))
