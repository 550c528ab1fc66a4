"""The loops of `compiled` in NumPy, for where numba is not installed, for few elements, and for any memory layout.

Arrays come as *views*: NumPy arrays of any layout and byte order; those of bfloat16 hold its bits as uint16.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

__all__ = ["CHUNK", "View", "find_largest", "find_unit", "scale", "sum_other_powers", "sum_powers"]

View = np.ndarray[Any, Any]

#: Elements that are worked on at a time: in float64 they stay in a core's second cache.
CHUNK = 1 << 16
#: Elements of one dot product, so few that BLAS starts no threads.
_DOT = 1 << 10
#: Elements of a row whose highest bits are summed without rounding, and how many bits these are of a square's root.
_ROW = 1 << 8
_BITS = (53 - 8) // 2
#: Two to this is the smallest normal number of float32.
_SMALLEST = 2.0**-126


def split(*views: View) -> Iterator[tuple[View, ...]]:
    """Yield views of parts of arrays of one shape, in a fixed order: flat ones if all lie in one piece alike."""
    first = views[0]
    if first.size <= CHUNK:
        yield views
    elif first.flags.forc and len({tuple(step // x.itemsize for step in x.strides) for x in views}) == 1:
        flat = [x.ravel(order="K") for x in views]
        for start in range(0, first.size, CHUNK):
            yield tuple(x[start : start + CHUNK] for x in flat)
    else:
        axis = int(np.argmax(first.shape))
        count = min(first.shape[axis], -(-first.size // CHUNK))
        for parts in zip(*(np.array_split(x, count, axis=axis) for x in views), strict=True):
            yield from split(*parts)


def widen(views: Sequence[View]) -> View:
    """Return the elements of views in float64, one after the other, exactly."""
    parts = [np.left_shift(x, 16, dtype=np.uint32).view(np.float32) if x.dtype == np.uint16 else x for x in views]
    return np.concatenate(parts, axis=None, dtype=np.float64, casting="unsafe")


def pack(views: Sequence[View]) -> Iterator[list[View]]:
    """Yield parts of views of at most `CHUNK` elements together: large views are cut, small ones are joined."""
    waiting: list[View] = []
    size = 0
    for view in views:
        for (part,) in ((view,),) if view.size <= CHUNK else split(view):
            if waiting and size + part.size > CHUNK:
                yield waiting
                waiting, size = [], 0
            waiting.append(part)
            size += part.size
    if waiting:
        yield waiting


def sum_powers(views: Sequence[View], power: int, exact: bool, factor: float = 1.0) -> list[float]:
    """Return numbers that add up to the sum of the squares (`power` 2) or magnitudes (1) of all elements.

    If `exact`, of the elements times `factor`, a power of two.
    """
    if not exact:
        return [sum_plainly(widen(parts), power) for parts in pack(views)]
    return [number for parts in pack(views) for number in sum_exactly(widen(parts) * factor, power)]


def sum_plainly(x: View, power: int) -> float:
    """Sum the squares (`power` 2) or magnitudes (1) of at most `CHUNK` float64 numbers, in any order.

    No term is negative, and the squares of float16, bfloat16 and float32 are exact: the sum is off by less than
    `2**16 * 2**-53` of itself, whatever the order (Higham, Accuracy and Stability, section 4.2).
    """
    if power == 1:
        return float(np.sum(np.abs(x)))
    whole = x.size // _DOT * _DOT
    rows, rest = x[:whole].reshape(-1, _DOT), x[whole:]
    return float(np.sum(np.vecdot(rows, rows))) + float(np.vecdot(rest, rest))


def sum_exactly(x: View, power: int) -> list[float]:
    """Return numbers whose sum is that of the squares or magnitudes of float64 numbers, to `2**-60` of itself.

    In each row of 256 elements the highest 22 bits of the largest are split off every element (Rump, Ogita, Oishi,
    Accurate Floating-Point Summation, 2008, algorithm ExtractVector). The squares of these parts are multiples of one
    number and fewer than `2**53` of it together: their sum is exact in any order. With q the last place of these parts,
    the rests of all squares are at most `q * sum |x| <= 2**-20 * max |x| * 16 * norm` together, that is `2**-16` of the
    sum, and rounding takes `2**-45` of them. Magnitudes are split alike.
    """
    padded = np.zeros(-(-x.size // _ROW) * _ROW)
    padded[: x.size] = x if power == 2 else np.abs(x)
    rows = padded.reshape(-1, _ROW)
    largest = np.max(np.abs(rows), axis=1, keepdims=True)
    anchor = largest * 2.0 ** (53 + 1 - _BITS if power == 2 else 8 + 1)
    high = (rows + anchor) - anchor
    low = rows - high
    if power == 2:
        low *= rows + high
        high *= high
    return [*np.sum(high, axis=1).tolist(), *np.sum(low, axis=1).tolist()]


def find_unit(power: float, largest: float) -> float:
    """Return what magnitudes are divided by before they are raised to a power.

    A power of two near the largest, above zero, which divides without rounding, where no sum can overflow for that;
    else the largest itself: the quotient's rounding is multiplied by `power`, and divided by it again by the root.
    """
    return largest if power > 50 else math.ldexp(1.0, math.frexp(largest)[1] - 1)


def sum_other_powers(views: Sequence[View], power: float, unit: float) -> list[float]:
    """Return numbers whose sum is that of `(|x| / unit) ** power`, each power off by what NumPy's `power` is."""
    return [number for parts in pack(views) for number in sum_exactly(np.power(np.abs(widen(parts)) / unit, power), 1)]


def find_largest(x: View) -> float:
    """Return the largest magnitude of a view; NaN if an element is NaN."""
    if x.dtype == np.uint16:
        # The bits of magnitudes are in the order of the magnitudes, and NaN comes last.
        return float(widen([np.asarray([np.max(np.bitwise_and(x, 0x7FFF))], np.uint16)])[0])
    return float(np.maximum(np.max(x), -np.min(x))) + 0.0


def scale(source: View, target: View, high: float, low: float, power: float, precise: bool) -> None:
    """Write the elements of a view times `(high + low) * power` into another, which may be the same.

    Elements are off by at most 1.5 units in the last place: half of one for rounding the product, and less than 0.98
    for rounding the coefficient. A coefficient off by `e` of itself takes a product off by at most `e * 2**24` units of
    float32 (`2**53` of float64), which have so many bits (Higham, Accuracy and Stability, section 2.1). Where `e` is
    above `0.98 * 2**-24`, or float32 cannot hold the coefficient, or if `precise`, the product is made in float64, and
    is off by half a unit; of float64, the rest of the coefficient is counted. Products of float16 and bfloat16 are made
    in float32, with bits to spare.
    """
    if source.dtype == np.float64:
        # Rounding the coefficient takes one unit at the most; where it takes nearly that, the rest is counted.
        if power == 1.0 and not abs(low) > 0.49 * np.spacing(high):
            np.multiply(source, high, target)
            return
        for part, out in split(source, target):
            product = part * high
            product += np.where(np.isfinite(product), part * low, 0.0)
            np.multiply(product, power, out)
        return
    high *= power
    loses = 0 < high < _SMALLEST or abs(float(np.float32(high)) - high) > 0.98 * 2.0**-24 * high
    factor: View = np.asarray(high, np.float64 if precise or loses else np.float32)
    if factor.dtype == source.dtype:
        np.multiply(source, factor, target)
        return
    for part, out in split(source, target):
        if source.dtype == np.uint16:
            products = np.left_shift(part, 16, dtype=np.uint32).view(np.float32) * factor
            out[...] = _round_to_bfloat16(products.astype(np.float32, copy=False))
        else:
            out[...] = part.astype(factor.dtype) * factor


def _round_to_bfloat16(x: View) -> View:
    """Return the bits of float32 numbers rounded to bfloat16, to even."""
    bits = x.view(np.uint32)
    rounded = bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))
    return (np.where(np.isnan(x), bits | np.uint32(1 << 22), rounded) >> 16).astype(np.uint16)
