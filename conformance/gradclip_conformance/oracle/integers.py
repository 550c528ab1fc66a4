"""Implement the first oracle: compute the results of the operations in integers, those of long arrays by NumPy.

Every finite float is an integer times a power of two, so sums of powers are exact, and `math.isqrt` gives any
number of bits of a norm. The expected gradients are the given ones times one rational coefficient. Its relative error
is below 2**-250 if the norm is irrational, and 0 if it is not.

Integer arithmetic supports the orders 1, 2, 3, ..., infinity and the half-integers. The second oracle, `balls`, has the
same functions and takes every order. Neither shares code with the reference implementation.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from fractions import Fraction

from .formats import compute_power_of_two
from .formula import PLAIN, Formula
from .long_integers import LongIntegers
from .model import (
    Clipped,
    DyadicArray,
    Enclosure,
    ExpectedArray,
    clip_by_factor,
    convert_threshold,
    list_finite_integers,
)

#: The bits of a root that are computed, unless the root is exact.
ROOT_BITS = 256

#: A norm of half-integer order that cannot be distinguished from the threshold gets more bits, up to this number.
COMPARISON_BITS = 16_384


class NoExactNormError(NotImplementedError):
    """Integer arithmetic does not support the order of the norm."""


def compute_norm(tensors: Iterable[DyadicArray], p: float = 2.0, bits: int = ROOT_BITS, divisor: int = 1) -> Enclosure:
    r"""Return the norm of all elements of all tensors together, :math:`(\frac{1}{d} \sum_i |x_i|^p)^{1/p}`.

    Without elements, it is 0.

    Parameters
    ----------
    tensors
        Their elements must be finite. A generator of pieces keeps the memory small.
    p
        The order: a positive multiple of 1/2, or infinity.
    bits
        The least number of bits of a root that are computed, unless the root is exact.
    divisor
        The d, which divides the sum of powers. A norm that is an average has one; its order is an integer.

    Raises
    ------
    NoExactNormError
        For any other order.
    """
    if p == math.inf:
        largest = max((_find_largest(tensor) for tensor in tensors), default=Fraction(0))
        return Enclosure(largest, largest)
    halves = 2 * p
    if not (0 < halves < math.inf and halves == int(halves)):
        message = f"no exact norm of order {p!r}: integers support 1/2, 1, 3/2, ... and infinity; use balls"
        raise NoExactNormError(message)
    if p == int(p):
        return _enclose_root(_add_powers(tensors, int(p)) / divisor, int(p), bits)
    return _compute_half_integer_norm(tensors, int(halves), bits)


def _find_largest(tensor: DyadicArray) -> Fraction:
    return max((abs(m) for m in list_finite_integers(tensor)), default=0) * compute_power_of_two(tensor.exponent)


def _add_powers(tensors: Iterable[DyadicArray], p: int) -> Fraction:
    total = Fraction(0)
    for tensor in tensors:
        integers = list_finite_integers(tensor)
        if p == 2 and isinstance(integers, LongIntegers):
            powers = integers.add_squares()
        else:
            powers = sum(map(operator.mul, integers, integers) if p == 2 else (abs(m) ** p for m in integers))
        total += powers * compute_power_of_two(p * tensor.exponent)
    return total


def _compute_half_integer_norm(tensors: Iterable[DyadicArray], halves: int, bits: int) -> Enclosure:
    """Return the norm of order `halves / 2`: `S**(2 / halves)`, where `S` is the sum of `sqrt(|x|**halves)`."""
    lower = upper = Fraction(0)
    for tensor in tensors:
        # Make the exponent even, so that the root of the unit is a power of two as well.
        odd = tensor.exponent % 2
        powers = [(abs(m) << odd) ** halves << 2 * bits for m in list_finite_integers(tensor)]
        roots = [math.isqrt(power) for power in powers]
        inexact = sum(root * root != power for root, power in zip(roots, powers, strict=True))
        unit = compute_power_of_two((tensor.exponent - odd) // 2 * halves - bits)
        lower += sum(roots) * unit
        upper += (sum(roots) + inexact) * unit
    if lower == upper:
        return _enclose_root(lower**2, halves, bits)
    return Enclosure(_enclose_root(lower**2, halves, bits).lower, _enclose_root(upper**2, halves, bits).upper)


def _enclose_root(power: Fraction, order: int, bits: int) -> Enclosure:
    """Enclose a root of a fraction to at least this number of bits, exactly if the root is dyadic."""
    if not power:
        return Enclosure(Fraction(0), Fraction(0), power, order)
    magnitude = power.numerator.bit_length() - power.denominator.bit_length()
    # Use enough places for the whole power, so that an exact root is recognised.
    places = max(-(-(power.denominator.bit_length() - 1) // order), bits + 1 - magnitude // order, 0)
    scaled = (power.numerator << places * order) // power.denominator
    root = _find_integer_root(scaled, order)
    unit = compute_power_of_two(-places)
    is_exact = root**order * power.denominator == power.numerator << places * order
    upper = root if is_exact else root + 1
    return Enclosure(root * unit, upper * unit, power, order)


def _find_integer_root(number: int, order: int) -> int:
    """Return the greatest integer whose power of this order is at most `number`."""
    if order <= 2:
        return number if order == 1 else math.isqrt(number)
    guess = 1 << -(-number.bit_length() // order)
    # Newton's iteration from above decreases until it reaches the root.
    while True:
        better = ((order - 1) * guess + number // guess ** (order - 1)) // order
        if better >= guess:
            return guess
        guess = better


def compare_to_threshold(bounds: Enclosure, threshold: Fraction) -> int:
    """Return -1, 0 or 1, exactly, for a norm below, at or above the threshold.

    For half-integer orders, whose powers may be irrational, 0 also stands for a threshold inside the enclosure.
    """
    if not bounds.lower <= threshold <= bounds.upper:
        return 1 if threshold < bounds.lower else -1
    if bounds.power is None or bounds.lower == bounds.upper:
        return 0
    power = threshold**bounds.order
    return (bounds.power > power) - (bounds.power < power)


def compute_coefficient(bounds: Enclosure, threshold: float | Fraction, formula: Formula = PLAIN) -> Fraction:
    """Return the coefficient that multiplies the gradients, given the enclosure of their norm and the threshold.

    For an infinite threshold, return the limit of the formula. For a denominator of 0, return 1, because all elements
    are zeros then.
    """
    size, small = bounds.middle, formula.small
    if threshold == math.inf:
        # The limit is 1, except for "min-numerator", whose coefficient below the threshold is n / (n + small).
        return size / (size + small) if formula.kind == "min-numerator" and size + small else Fraction(1)
    limit = convert_threshold(threshold)
    above = compare_to_threshold(bounds, limit - formula.compute_threshold_shift()) > 0
    if formula.kind in ("plain", "coefficient"):
        numerator, denominator = (
            (limit, size + formula.compute_threshold_shift()) if above else (Fraction(1), Fraction(1))
        )
    elif formula.kind == "max-denominator":
        numerator, denominator = limit, (size if above else limit) + small
    else:
        numerator, denominator = (limit if above else size), size + small
    return numerator / denominator if denominator else Fraction(1)


def clip_by_value(values: DyadicArray, low: float | Fraction, high: float | Fraction) -> ExpectedArray:
    """Return `min(max(x, low), high)` of each element. A NaN stays, an infinity becomes a bound."""
    bounds = (convert_threshold(low), convert_threshold(high))
    # Choose a unit that divides the elements and the bounds.
    denominator = math.lcm(*(bound.denominator for bound in bounds), 1 << max(-values.exponent, 0))
    scale = denominator << values.exponent if values.exponent >= 0 else denominator >> -values.exponent
    least, most = (bound.numerator * (denominator // bound.denominator) for bound in bounds)
    least = min(least, most)
    scaled = values.integers if scale == 1 else [m * scale for m in values.integers]
    # This takes half the time of `min` and `max`.
    clipped = [least if m < least else most if m > most else m for m in scaled]
    special = {}
    for place, value in values.special.items():
        if math.isnan(value):
            special[place] = value
        else:
            clipped[place] = most if value > 0 else least
    negative = values.negative
    if not least < 0 < most:
        negative = [m < 0 or (m == 0 and sign) for m, sign in zip(clipped, negative, strict=True)]
    return ExpectedArray(DyadicArray(clipped, 0, negative, special), Fraction(1, denominator))


def clip_by_global_norm(
    tensors: Sequence[DyadicArray | None],
    clip_norm: float | Fraction,
    p: float = 2.0,
    included: Sequence[bool] | None = None,
    formula: Formula = PLAIN,
    divisor: int = 1,
) -> Clipped:
    """Clip all included gradients by their common norm. The others are neither counted nor changed.

    Parameters
    ----------
    tensors
        None stands for a gradient that does not exist; included tensors must be finite.
    clip_norm
        The threshold; infinity for none.
    p
        The order of the norm (see :func:`compute_norm`).
    included
        One flag for each tensor; all are included by default.
    formula
        The formula of the coefficient.
    divisor
        The number that divides the sum of powers (see :func:`compute_norm`).
    """
    flags = [True] * len(tensors) if included is None else included
    counted = [tensor for tensor, flag in zip(tensors, flags, strict=True) if flag and tensor is not None]
    bounds, side = compute_norm(counted, p, divisor=divisor), -1
    if clip_norm != math.inf:
        bounds, side = _find_side(counted, bounds, convert_threshold(clip_norm), p, divisor)
    return clip_by_factor(tensors, flags, bounds, side, compute_coefficient(bounds, clip_norm, formula))


def _find_side(
    tensors: Sequence[DyadicArray], bounds: Enclosure, threshold: Fraction, p: float, divisor: int
) -> tuple[Enclosure, int]:
    """Return an enclosure of the norm that is narrow enough to decide the side of the threshold, and the side."""
    bits = ROOT_BITS
    side = compare_to_threshold(bounds, threshold)
    while not side and bounds.lower < bounds.upper and bits < COMPARISON_BITS:
        bits *= 2
        bounds = compute_norm(tensors, p, bits, divisor)
        side = compare_to_threshold(bounds, threshold)
    return bounds, side
