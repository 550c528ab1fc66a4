"""Implement the loops of `compiled` in NumPy: for few elements, for any memory layout, and for use without numba.

Arrays are passed as *views*: NumPy arrays of any layout and byte order; for bfloat16, they hold the bits as uint16.
"""

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

View = np.ndarray[Any, Any]
#: A number `(high + low) * power`, where `power` is a power of two.
Factor = tuple[float, float, float]

#: This many elements are processed at a time. In float64 they fit in a core's second-level cache.
CHUNK = 1 << 16
#: The number of elements in one dot product, small enough that BLAS starts no threads.
_DOT = 1 << 10
#: The number of elements in a row, and how many of their highest bits are summed without rounding.
_ROW = 1 << 8
_BITS = (53 - 8) // 2
#: The smallest normal number of float32.
_SMALLEST = 2.0**-126


def split(*views: View) -> Iterator[tuple[View, ...]]:
    """Yield the same parts of several arrays of one shape, in a fixed order. They are flat if the layout allows it."""
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
    parts = [np.left_shift(x, 16, dtype=np.uint32).view(np.float32) if x.dtype.type is np.uint16 else x for x in views]
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


def sum_powers(views: Sequence[View], power: int, compensated: bool, factor: float = 1.0) -> list[float]:
    """Return numbers that add up to the sum of the squares (`power` 2) or magnitudes (1) of all elements.

    If `compensated`, sum the elements times `factor`, a power of two.
    """
    if not compensated:
        return [sum_plainly(widen(parts), power) for parts in pack(views)]
    joined = map(widen, pack(views))
    return [number for x in joined for number in sum_compensated(x if factor == 1 else x * factor, power)]


def sum_plainly(x: View, power: int) -> float:
    """Sum the squares (`power` 2) or magnitudes (1) of at most `CHUNK` float64 numbers, in any order.

    No term is negative, and the squares of float16, bfloat16 and float32 are exact: the relative error of the sum is
    less than `2**16 * 2**-53`, whatever the order (Higham, Accuracy and Stability, section 4.2).
    """
    if power == 1:
        return float(np.sum(np.abs(x)))
    if x.size <= _DOT:
        return float(np.vecdot(x, x))
    whole = x.size // _DOT * _DOT
    rows, rest = x[:whole].reshape(-1, _DOT), x[whole:]
    return float(np.sum(np.vecdot(rows, rows))) + float(np.vecdot(rest, rest))


def sum_compensated(x: View, power: int) -> list[float]:
    """Return numbers that add up to the sum of squares or magnitudes, with a relative error of at most `2**-60`.

    A row has 256 elements. Let q be the place of the 21st bit of the row's largest element. The bits of every element
    from q upwards are split off (Rump, Ogita, Oishi, Accurate Floating-Point Summation, 2008, algorithm ExtractVector).
    The squares of these parts are multiples of one number. Their sum is below `2**53` times that number, so it is exact
    in any order. The rests of all squares add up to at most `q * sum |x| <= 2**-20 * max |x| * 16 * norm`. That is
    `2**-16` of the sum, and rounding the rests has a relative error of about `2**-45`. Magnitudes are split likewise.
    """
    magnitudes = np.abs(x)
    if x.size > _ROW and x.size % _ROW:
        magnitudes = np.concatenate([magnitudes, np.zeros(-x.size % _ROW)])
    rows = magnitudes.reshape(-1, min(x.size, _ROW))
    # The methods of ufuncs take half the time of `np.max` and `np.sum`.
    largest = np.maximum.reduce(rows, axis=1, keepdims=True)
    anchor = largest * 2.0 ** (53 + 1 - _BITS if power == 2 else 8 + 1)
    high = (rows + anchor) - anchor
    low = rows - high
    if power == 2:
        return [*np.vecdot(high, high).tolist(), *np.vecdot(low, rows + high).tolist()]
    return [*np.add.reduce(high, axis=1).tolist(), *np.add.reduce(low, axis=1).tolist()]


def find_unit(power: float, largest: float) -> float:
    """Return the number by which magnitudes are divided before they are raised to a power.

    For a moderate power this is a power of two near the largest magnitude: dividing by it rounds nothing, and no sum
    can overflow. For a high power, it is the largest magnitude itself. Then raising to the power multiplies the
    quotient's rounding error by `power`, and the root divides that error again.
    """
    return largest if power > 50 else math.ldexp(1.0, math.frexp(largest)[1] - 1)


def sum_other_powers(views: Sequence[View], power: float, unit: float) -> list[float]:
    """Return numbers that add up to the sum of `(|x| / unit) ** power`, with the error of NumPy's `power`."""
    return [
        number for parts in pack(views) for number in sum_compensated(np.power(np.abs(widen(parts)) / unit, power), 1)
    ]


def find_largest(x: View) -> float:
    """Return the largest magnitude of a view, or NaN if an element is NaN."""
    if x.dtype == np.uint16:
        # The bits of magnitudes are ordered like the magnitudes, and NaN comes last.
        return float(widen([np.asarray([np.max(np.bitwise_and(x, 0x7FFF))], np.uint16)])[0])
    return float(np.maximum(np.max(x), -np.min(x))) + 0.0


def scale(sources: Sequence[View], targets: Sequence[View], factors: Iterable[Factor], precise: bool) -> None:
    """Write the elements of each view times its factor into its target, which may be the view itself.

    The error of an element is at most 1.5 ulp: half an ulp for rounding the product, and less than 0.98 ulp for
    rounding the factor. A relative error `e` of the factor changes a product by at most `e * 2**24` ulp of float32
    (`e * 2**53` of float64; Higham, Accuracy and Stability, section 2.1). The product is computed in float64 if `e` is
    above `0.98 * 2**-24`, if float32 cannot hold the factor, or if `precise` is true. Its error is then half an ulp.
    For float64 arrays, the rest of the factor is included, too. Products of float16 and bfloat16 are computed in
    float32, which has bits to spare.
    """
    for source, target, (high, low, power) in zip(sources, targets, factors, strict=False):
        # A float64 of the other byte order has another dtype, but the same type.
        kind = source.dtype.type
        if kind is np.float64:
            _scale_wide(source, target, high, low, power)
        elif kind is np.uint16:
            _scale_bits(source, target, _round_factor(high * power, precise))
        else:
            np.multiply(source, _round_factor(high * power, precise), target, casting="unsafe")


@functools.lru_cache
def _round_factor(factor: float, precise: bool) -> np.floating[Any]:
    """Return the factor of a narrow view in the dtype of the products."""
    narrow = np.float32(factor)
    loses = 0 < factor < _SMALLEST or abs(float(narrow) - factor) > 0.98 * 2.0**-24 * factor
    return np.float64(factor) if precise or loses else narrow


def _scale_wide(source: View, target: View, high: float, low: float, power: float) -> None:
    # Rounding the factor costs at most one ulp. If it costs nearly that, include the rest of the factor, which is zero
    # if an element is not finite.
    if power == 1.0 and not abs(low) > 0.49 * math.ulp(high):
        np.multiply(source, high, target)
        return
    for part, out in split(source, target):
        np.multiply(part * high + part * low, power, out)


def _scale_bits(source: View, target: View, factor: np.floating[Any]) -> None:
    for part, out in split(source, target):
        products = (np.left_shift(part, 16, dtype=np.uint32).view(np.float32) * factor).astype(np.float32, copy=False)
        bits = products.view(np.uint32)
        rounded = bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))
        out[...] = np.where(np.isnan(products), bits | np.uint32(1 << 22), rounded) >> 16
