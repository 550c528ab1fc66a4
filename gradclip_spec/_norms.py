"""Compute norms with the array API alone, without reading a value.

The norms do not overflow, underflow or lose accuracy. If there is float64, a Euclidean norm of narrower elements is
*simple*: the root of a sum of squares in float64, which has enough bits and range. Any other norm is computed in four
steps, each a function here. Scale the elements by the largest one, so that their powers stay in range. Sum the powers
together with their rounding errors. Take the root. Keep the scale as a separate factor. Elements are split, `x = high +
low`. The high parts (or their squares) are multiples of one number. So the sum of few enough of them is exact in any
order. The effect of rounding the remainders is negligible: `_sum_whole` states the bound. Float32 has too few bits to
split elements, so `_sum_folded` sums the rounding errors instead, and states its own bound.

`work` is the backend of one call (`backends.base.Backend`): its library `xp`, its `format`, and a few primitives.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gradclip_spec._arithmetic import fold, keep_finite, keep_top_bits, raise_two, root, two_product, two_sum
from gradclip_spec._formats import FORMATS

Array = Any

#: For p up to this number, the p-th power of 2 and a sum of many such powers are within float32's range.
_MODEST_POWER = 50
#: The number of elements in one pack of small arrays.
_PACK = 1 << 17


class Norm(NamedTuple):
    """The number `(high + low) * 2**exponent`, or an array of such numbers. A simple norm is `high` alone."""

    high: Array
    low: Array = None
    exponent: Array = None


class PowerSum(NamedTuple):
    """A sum `high + low` of p-th powers of elements, after dividing each element by `divisor * 2**exponent`.

    The divisor is 1 if p is 1 or 2. If p is infinite, or if an element is not finite, `high` is the largest magnitude.
    """

    high: Array
    low: Array
    divisor: Array
    exponent: Array


def take_simple_root(xp: Any, x: Array) -> Array:
    """Return the square root of a float64 number that is zero or at least `2**-1000`.

    The derivative at zero is zero, not infinite. Test the root for zero, and not `x`: a compiler computes a root once,
    but repeats a cheap operation for each array that is multiplied later. These repetitions would take quadratic time
    and code.
    """
    least = 2.0**-1000
    result = xp.sqrt(xp.where(x < least, xp.full_like(x, least), x))
    return xp.where(result <= 2.0**-500, xp.zeros_like(result), result)


def make_power_sum(work: Any, arrays: Sequence[Array], norm_type: float) -> PowerSum:
    """Return the sum of the powers of all elements. No array may be empty."""
    xp, one, zero = work.xp, work.make_number(1.0), work.make_number(0.0)
    if not arrays:
        return PowerSum(zero, zero, one, zero)
    arrays = work.keep_for_derivatives(arrays)
    # Use float64 only if an array has it. If JAX has no float64 by default, it cannot differentiate a maximum in
    # float64.
    each = [xp.astype(work.find_largest(array), work.total_dtype) for array in arrays]
    largest = xp.astype(xp.max(xp.stack(each)), work.dtype)
    if norm_type == math.inf:
        return PowerSum(largest, zero, one, zero)
    ordinary = xp.isfinite(largest) & (largest > 0)
    positive = xp.where(ordinary, largest, xp.ones_like(largest))
    exponent = _find_exponent(xp, positive, work.format.precision)
    scale = raise_two(xp, -exponent, work.format.precision)
    bound = positive * scale
    if norm_type not in (1, 2) and norm_type <= _MODEST_POWER:
        # The new bound is 1, unless `_find_exponent` limited the exponent.
        bound = raise_two(xp, xp.floor(xp.log2(bound)), work.format.precision)
    high, low = _sum_scaled(work, arrays, norm_type, scale, bound)
    zero = xp.zeros_like(positive)
    return PowerSum(
        high=xp.where(ordinary, high, largest),
        low=xp.where(ordinary, low, zero),
        divisor=bound if norm_type not in (1, 2) else xp.ones_like(positive),
        exponent=xp.where(ordinary, exponent, zero),
    )


def take_root(work: Any, powers: PowerSum, norm_type: float) -> Norm:
    """Return the norm from the sum of powers. `high` is zero, not finite, or far from the ends of the range."""
    xp, precision = work.xp, work.format.precision
    high, low, divisor, exponent = powers
    if norm_type == 2:
        return Norm(*root(xp, high, low, precision), exponent)
    if norm_type == 1:
        return Norm(high, low, exponent)
    nonzero = high != 0
    if norm_type != math.inf:
        high = xp.where(nonzero, _take_other_root(work, high, low, norm_type) * divisor, xp.zeros_like(high))
    # If `_find_exponent` limits the exponent, `high` keeps the rest of it.
    positive = xp.where(nonzero & xp.isfinite(high), high, xp.ones_like(high))
    own = _find_exponent(xp, positive, precision, exponent)
    return Norm(high * raise_two(xp, -own, precision), xp.zeros_like(high), exponent + own)


def _take_other_root(work: Any, high: Array, low: Array, norm_type: float) -> Array:
    """Return the p-th root of `high + low`. For zero, return any finite number."""
    xp = work.xp
    high = xp.where(high != 0, high, xp.ones_like(high))
    result = work.raise_to_power(high, 1 / norm_type)
    # Correct the root by one step of Newton's method: `1 / norm_type` is rounded, and the resulting error grows with
    # the logarithm of the sum.
    missing = (high - work.raise_to_power(result, norm_type)) + low
    return result + keep_finite(xp, result * (missing / (norm_type * high)))


def join(work: Any, rows: Array, norm_type: float) -> PowerSum:
    """Return the sum of powers of all blocks. Each row holds the `PowerSum` of one block, with its own scale."""
    xp, precision = work.xp, work.format.precision
    high, low, divisor, exponent = (rows[:, column] for column in range(4))
    if norm_type == math.inf:
        largest = xp.max(high)
        return PowerSum(largest, xp.zeros_like(largest), xp.ones_like(largest), xp.zeros_like(largest))
    # The scale of a block of zeros is arbitrary, and must not influence the others.
    exponent = xp.where(high != 0, exponent, xp.min(exponent))
    top = xp.max(exponent)
    # If the lower limit applies to a block, the block is negligible.
    shift = xp.clip(exponent - top, -15 * work.format.largest / 16, 0.0)
    size = divisor * raise_two(xp, shift, precision)
    size = xp.where(high != 0, size, xp.min(size))
    largest = xp.max(size)
    share = size / largest
    if norm_type == 1:
        power = share
    else:
        power = share * share if norm_type == 2 else xp.pow(share, xp.full_like(share, norm_type))
    # Do not multiply an infinity by a factor that has underflowed to zero.
    high, error = fold(xp, xp.where(xp.isfinite(high), high * power, high))
    return PowerSum(high, error + xp.sum(low * power), largest, top)


def pack(work: Any, arrays: Sequence[Array]) -> Iterator[Array]:
    """Yield the arrays, with small similar ones joined, so that thousands of small arrays need only a few calls."""
    waiting: dict[Any, list[Array]] = {}
    sizes: dict[Any, int] = {}
    for array in arrays:
        size = math.prod(array.shape)
        # While tracing, sizes may be symbols.
        if not isinstance(size, int) or size >= _PACK // 8:
            yield array
            continue
        kind = (work.dtypes[array.dtype], work.find_place(array))
        waiting.setdefault(kind, []).append(array)
        sizes[kind] = sizes.get(kind, 0) + size
        if sizes[kind] >= _PACK:
            yield work.join_alike(waiting.pop(kind))
            del sizes[kind]
    for group in waiting.values():
        yield group[0] if len(group) == 1 else work.join_alike(group)


def _find_exponent(xp: Any, x: Array, precision: int, other: Any = 0.0) -> Array:
    """Return the exponent e of a number above zero, within limits.

    With these limits, two to the power of `e + other`, and the inverse of that power, are normal numbers of the format.
    """
    lower, upper = (-900.0, 1000.0) if precision == FORMATS["float64"].precision else (-105.0, 120.0)
    together = xp.floor(xp.log2(x)) + other
    return xp.where(together < lower, lower - other, xp.where(together > upper, upper - other, together - other))


def _sum_scaled(
    work: Any, arrays: Sequence[Array], norm_type: float, scale: Array, bound: Array
) -> tuple[Array, Array]:
    """Return the sum of `|x * scale| ** p`, or of `|x * scale / bound| ** p` if p is neither 1 nor 2, as (high, low).

    No scaled magnitude is above the bound, or above twice the bound if p is small and neither 1 nor 2.
    """
    parts = []
    for array in pack(work, arrays):
        # Take magnitudes here and not in float64: if JAX has no float64 by default, it cannot differentiate them there.
        whole = array if norm_type == 2 else work.xp.abs(array)
        x = work.xp.astype(whole, work.dtype, copy=False) * scale
        parts.append((_sum_whole if work.has_float64 else _sum_folded)(work, x, norm_type, bound))
    highs = [high for high, _ in parts]
    # Add zeros up to a power of two, because `fold` halves such a number without a remainder.
    highs += [work.xp.zeros_like(highs[0])] * ((1 << (len(highs) - 1).bit_length()) - len(highs))
    high, error = fold(work.xp, work.xp.stack(highs))
    low = error + work.xp.sum(work.xp.stack([low for _, low in parts]))
    return two_sum(high, keep_finite(work.xp, low))


def _sum_whole(work: Any, x: Array, norm_type: float, bound: Array) -> tuple[Array, Array]:
    """Return the sum of powers over an array without cutting it into rows, because it may lie on several devices.

    Let b be the bits of the count, and `h = (53 - b) // 2`. The high parts are multiples of a quantum q, which is
    between `bound * 2**(1 - h)` and twice that; each is at most `2**(h - 1)` times q. So each square is at most
    `2**(2 * h - 2)` times q squared, and fewer than `2**b` squares sum exactly. The low parts are at most q / 2. The
    remainder of a square is at most q / 2 times twice the bound; it is split and summed once more. The final remainder
    is below `2**(3 - h - 53 + b)` times the largest square, and its rounding is negligible.
    """
    xp, count_bits = work.xp, _count_bits(math.prod(x.shape))
    if norm_type != 2:
        largest = bound if norm_type == 1 else 2.0 ** (norm_type if norm_type <= _MODEST_POWER else 0)
        return _sum_split(xp, _raise_to_power(work, x, norm_type, bound), largest, count_bits)
    bits = (work.format.precision - count_bits) // 2
    high = keep_top_bits(x, bound * 2.0 ** (work.format.precision + 1 - bits))
    low = x - high
    rest, rest_of_rest = _sum_split(xp, low * (x + high), bound * bound * 2.0 ** (2 - bits), count_bits)
    return xp.sum(high * high), rest + rest_of_rest


def _sum_folded(work: Any, x: Array, norm_type: float, bound: Array) -> tuple[Array, Array]:
    """Return the sum of powers in float32.

    Float32 has too few bits to split elements, so rounding errors are summed instead.

    TwoProduct and TwoSum give each error exactly (Ogita, Rump, Oishi, Accurate Sum and Dot Product, 2005). The relative
    size of each error is at most `2**-24`. Summing n errors adds a relative error of at most `n * 2**-48`, and less if
    a library adds in halves or blocks.
    """
    x = work.xp.reshape(x, (-1,))
    if norm_type == 2:
        powers, errors = two_product(x, x, work.format.precision)
        high, low = fold(work.xp, powers)
        return high, low + work.xp.sum(errors)
    return fold(work.xp, _raise_to_power(work, x, norm_type, bound))


def _count_bits(size: Any) -> int:
    """Return a number of bits that suffices to count the elements. `size` may be a symbol.

    The result has only a few possible values, because torch compiles once for each value if sizes are dynamic.
    """
    return next(bits for bits in (10, 20, 28, 40, 60) if size < 1 << bits) if isinstance(size, int) else 40


def _sum_split(xp: Any, x: Array, bound: Array, count_bits: int) -> tuple[Array, Array]:
    """Return the exact sum of the top bits of fewer than `2**count_bits` bounded elements, and the sum of the rest."""
    high = keep_top_bits(x, bound * 2.0 ** (count_bits + 1))
    return xp.sum(high), xp.sum(x - high)


def _raise_to_power(work: Any, magnitudes: Array, norm_type: float, bound: Array) -> Array:
    if norm_type == 1:
        return magnitudes
    # Leave out zero elements: they contribute nothing, and the derivative of a root is infinite at zero.
    xp, nonzero = work.xp, magnitudes > 0
    ratios = xp.where(nonzero, magnitudes / bound, xp.ones_like(magnitudes))
    return xp.where(nonzero, work.raise_to_power(ratios, norm_type), xp.zeros_like(ratios))
