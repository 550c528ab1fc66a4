r"""Measure the distance of large arrays from exact results, a thousand times as fast as element by element.

*The norm* is enclosed without any rounding of the sum of squares. A number of a format of `p` bits is `m 2**e`, with an
integer `|m| < 2**p` and `p <= 53`. With :math:`m = 2^{27} a + b`, its square is
:math:`2^{54} a^2 + 2^{28} a b + b^2`, in which each of :math:`a^2, a b, b^2` is below :math:`2^{54}`. Each of these
products is split into its upper and lower 27 bits. The halves are summed separately for each exponent. In a piece of
:math:`2^{16}` elements, such a sum stays below :math:`2^{43}`, which float64 holds exactly. The sums of the pieces are
added as 64-bit integers, which can overflow only from :math:`2^{36}` elements on.

*The elements*: the exact result is `x f` with a rational `f`. Two float64 hold `f` to 106 bits, as :math:`f_h + f_l`.
Dekker's product gives `x f_h` exactly, as a sum :math:`q + e` of two float64. The distance of a result `y` is computed
as :math:`((y - q) - e) - x f_l`. This omits less than :math:`2^{-100} |x f|`, which is below :math:`2^{-46}` ulp of any
format here. The distance itself is rounded three times.

All functions work on pieces that fit in the processor's cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from gradclip_adapters.contract import Array

from .distances import measure_spacing
from .formats import FORMATS, compute_power_of_two, convert_to_dtype, decode_doubles
from .model import Enclosure

__all__ = ["compute_exact_norm", "measure_largest_error", "measure_largest_gap"]

Doubles = npt.NDArray[np.float64]

PIECE = 1 << 16
HALF = np.int64(27)


def compute_exact_norm(array: Array) -> Enclosure:
    """Return an enclosure of the Euclidean norm of finite elements, to 256 bits."""
    form = FORMATS[array.dtype]
    count = form.maximum_exponent - form.smallest_exponent + 2
    sums = np.zeros((3, 2, count), np.int64)
    for elements in _cut(array.data, array.dtype):
        fractions, exponents = np.frexp(np.abs(elements))
        integers = np.ldexp(fractions, form.precision).astype(np.int64)
        upper, lower = integers >> HALF, integers & ((1 << HALF) - 1)
        for row, products in enumerate((upper * upper, upper * lower, lower * lower)):
            for column, halves in enumerate((products >> HALF, products & ((1 << HALF) - 1))):
                # Zeros have the exponent 0, and add 0 to the sum for that exponent.
                counted = np.bincount(exponents - form.smallest_exponent, halves, count)
                sums[row, column] += counted.astype(np.int64)
    total = Fraction(0)
    for place in np.flatnonzero(sums.any(axis=(0, 1))).tolist():
        highest, middle, lowest = ((upper << 27) + lower for upper, lower in sums[:, :, place].tolist())
        square = (highest << 54) + (middle << 28) + lowest
        total += square * compute_power_of_two(2 * (place + form.smallest_exponent - form.precision))
    places = max(256, total.denominator.bit_length())
    root = math.isqrt((total.numerator << 2 * places) // total.denominator)
    return Enclosure(root * compute_power_of_two(-places), (root + 1) * compute_power_of_two(-places), total, 2)


def measure_largest_error(given: Array, got: Array, factor: Fraction) -> float:
    """Return the largest distance, in ulp, from the given elements times a factor, or infinity if one is not finite."""
    high = float(factor)
    low, largest = float(factor - Fraction(high)), 0.0
    of_both = zip(_cut(given.data, given.dtype), _cut(convert_to_dtype(got, given.dtype), given.dtype), strict=True)
    for elements, results in of_both:
        if not np.isfinite(results).all():
            return math.inf
        product, rest = _multiply_exactly(elements, high)
        distance = ((results - product) - rest) - elements * low
        largest = max(largest, float((np.abs(distance) / measure_spacing(product, FORMATS[given.dtype])).max()))
    return largest


def measure_largest_gap(first: Array, second: Array, dtype: str) -> float:
    """Return the largest distance, in ulp of a dtype, between two arrays, or infinity if only one is finite."""
    if first == second:
        return 0.0
    largest = 0.0
    for one, other in zip(_cut(first.data, first.dtype), _cut(second.data, second.dtype), strict=True):
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        with np.errstate(invalid="ignore"):
            gaps = np.where(same, 0.0, np.abs(one - other) / measure_spacing(one, FORMATS[dtype]))
        largest = max(largest, float(np.where(np.isnan(gaps), np.inf, gaps).max()))
    return largest


def _cut(data: bytes, dtype: str) -> Iterator[Doubles]:
    """Yield the elements as float64, piece by piece."""
    step = PIECE * FORMATS[dtype].width // 8
    for start in range(0, len(data), step):
        yield decode_doubles(data[start : start + step], dtype)


def _multiply_exactly(elements: Doubles, factor: float) -> tuple[Doubles, Doubles]:
    """Return the product exactly, as a sum of two float64 (Dekker 1971), if nothing leaves the range."""
    product = elements * factor
    splitter = 2.0**27 + 1
    upper = splitter * elements - (splitter * elements - elements)
    head = splitter * factor - (splitter * factor - factor)
    lower, tail = elements - upper, factor - head
    return product, ((upper * head - product) + upper * tail + lower * head) + lower * tail
