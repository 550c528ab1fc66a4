"""Implement the second oracle: the same answers in ball arithmetic of arbitrary precision (python-flint's `arb`).

A ball is a number with a rigorous bound of its error. This oracle takes norms of every order `p > 0`. It shares no
arithmetic with the first oracle, `integers`: it has its own powers, sums, roots and comparisons.
:func:`describe_disagreement` describes contradictions between the answers of the two oracles.

Only this module needs python-flint; the dependency group `published` installs it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from typing import Any

import flint

from .formats import compute_power_of_two
from .formula import PLAIN, Formula
from .model import (
    Clipped,
    DyadicArray,
    Enclosure,
    ExpectedArray,
    clip_by_factor,
    convert_threshold,
    list_finite_integers,
)

#: Bits of the balls' centres.
BITS = 320

#: A comparison is repeated with more bits, up to this number, before it counts as equality. It is a power of two times
#: `BITS`. The seventh powers of float64 numbers spread over no more than 14,700 bits.
COMPARISON_BITS = 20_480


#: A lock, because the library has one precision for all threads, and the suite has a thread for each host process.
_PRECISION = threading.RLock()


@contextmanager
def _use_precision(bits: int) -> Iterator[None]:
    with _PRECISION, flint.ctx.workprec(bits):
        yield


def _make_ball(value: Fraction) -> Any:
    return flint.arb(flint.fmpq(value.numerator, value.denominator))


def _find_bounds(ball: Any) -> Enclosure:
    """Return the ball's ends, exactly."""
    ends = (ball.lower().man_exp(), ball.upper().man_exp())
    lower, upper = (int(mantissa) * compute_power_of_two(int(exponent)) for mantissa, exponent in ends)
    return Enclosure(lower, upper)


def _compute_norm_ball(tensors: Sequence[DyadicArray], p: float, divisor: int) -> Any:
    magnitudes = [_list_magnitudes(tensor) for tensor in tensors]
    if p == math.inf:
        return max((unit * max(each, default=flint.arb(0)) for unit, each in magnitudes), default=flint.arb(0))
    if not p > 0:
        message = f"no norm of order {p!r}: give a number above 0, or infinity"
        raise ValueError(message)
    order, total = flint.arb(p), flint.arb(0)
    for unit, each in magnitudes:
        powers = (value * value for value in each) if p == 2 else (value**order for value in each)
        total += sum(powers, flint.arb(0)) * unit**order
    if total.is_zero():
        return total
    total /= divisor
    return total.sqrt() if p == 2 else total ** (1 / order)


def _list_magnitudes(tensor: DyadicArray) -> tuple[Any, Iterator[Any]]:
    """Return the unit of a tensor's elements, and the magnitudes of the nonzero ones in this unit."""
    return flint.arb((1, tensor.exponent)), (flint.arb(abs(m)) for m in list_finite_integers(tensor) if m)


def _make_balls(tensors: Sequence[DyadicArray], p: float, divisor: int = 1) -> Callable[[int], Any]:
    """Return a function that gives the norm to a number of bits, and caches the result."""

    @cache
    def compute_ball(bits: int) -> Any:
        with _use_precision(bits):
            return _compute_norm_ball(tensors, p, divisor)

    return compute_ball


def compute_norm(tensors: Iterable[DyadicArray], p: float = 2.0, bits: int = BITS, divisor: int = 1) -> Enclosure:
    r"""Return the norm of all elements of all tensors, :math:`(\frac{1}{d} \sum_i |x_i|^p)^{1/p}`.

    Without elements, it is 0.

    Parameters
    ----------
    tensors
        Their elements must be finite.
    p
        Any order above 0, or infinity.
    bits
        The precision of the computation.
    divisor
        The d, which divides the sum of powers.
    """
    return _bound_norm(_make_balls(list(tensors), p, divisor), bits)


def _bound_norm(balls: Callable[[int], Any], bits: int) -> Enclosure:
    with _use_precision(bits):
        bounds = _find_bounds(balls(bits))
    return Enclosure(max(bounds.lower, Fraction(0)), bounds.upper)


def _compare(balls: Callable[[int], Any], threshold: Fraction) -> int:
    """Return -1, 0 or 1 for a norm below, at or above the threshold. 0 also says that `COMPARISON_BITS` are too few."""
    bits = BITS
    while bits <= COMPARISON_BITS:
        bounds = _bound_norm(balls, bits)
        if threshold < bounds.lower:
            return 1
        if threshold > bounds.upper:
            return -1
        if bounds.lower == bounds.upper:
            return 0
        bits *= 2
    return 0


def _compute_coefficient(balls: Callable[[int], Any], threshold: float | Fraction, formula: Formula) -> Enclosure:
    """Return the coefficient that multiplies the gradients. See `Formula`."""
    one = Enclosure(Fraction(1), Fraction(1))
    if threshold == math.inf:
        above, limit = False, Fraction(0)
        if formula.kind != "min-numerator":
            return one
    else:
        limit = convert_threshold(threshold)
        above = _compare(balls, limit - formula.compute_threshold_shift()) > 0
    if formula.kind in ("plain", "coefficient") and not above:
        return one
    with _use_precision(BITS):
        size, clip, small = balls(BITS), _make_ball(limit), _make_ball(formula.small)
        if formula.kind in ("plain", "coefficient"):
            numerator, denominator = clip, size + _make_ball(formula.compute_threshold_shift())
        elif formula.kind == "max-denominator":
            numerator, denominator = clip, (size if above else clip) + small
        else:
            numerator, denominator = (clip if above else size), size + small
        return one if denominator.is_zero() else _find_bounds(numerator / denominator)


def clip_by_value(values: DyadicArray, low: float | Fraction, high: float | Fraction) -> ExpectedArray:
    """Return `min(max(x, low), high)` of each element, by fractions. A NaN stays, an infinity becomes a bound."""
    least, most = convert_threshold(low), convert_threshold(high)
    clipped = [min(max(value, least), most) for value in values.list_fractions()]
    special = dict(values.special)
    for place, value in values.special.items():
        if not math.isnan(value):
            clipped[place] = most if value > 0 else min(least, most)
            del special[place]
    denominator = math.lcm(*(value.denominator for value in clipped))
    integers = [value.numerator * (denominator // value.denominator) for value in clipped]
    negative = [value < 0 or (not value and sign) for value, sign in zip(clipped, values.negative, strict=True)]
    return ExpectedArray(DyadicArray(integers, 0, negative, special), Fraction(1, denominator))


def clip_by_global_norm(
    tensors: Sequence[DyadicArray | None],
    clip_norm: float | Fraction,
    p: float = 2.0,
    included: Sequence[bool] | None = None,
    formula: Formula = PLAIN,
    divisor: int = 1,
) -> Clipped:
    """Clip all included gradients by their common norm. See `integers.clip_by_global_norm`."""
    flags = [True] * len(tensors) if included is None else included
    counted = [tensor for tensor, flag in zip(tensors, flags, strict=True) if flag and tensor is not None]
    balls = _make_balls(counted, p, divisor)
    side = -1 if clip_norm == math.inf else _compare(balls, convert_threshold(clip_norm))
    factor = _compute_coefficient(balls, clip_norm, formula).middle
    return clip_by_factor(tensors, flags, _bound_norm(balls, BITS), side, factor)


def describe_disagreement(first: Clipped, second: Clipped) -> str | None:
    """Return a sentence about a contradiction between the answers of the two oracles, or None if they agree.

    The norms must overlap, and the sides of the threshold must be the same. The factors must agree to 200 bits, far
    more than a distance in ulp shows.
    """
    if first.norm.lower > second.norm.upper or second.norm.lower > first.norm.upper:
        return f"the norms do not overlap: {float(first.norm.middle)!r} and {float(second.norm.middle)!r}"
    if first.side != second.side:
        return f"the norm lies on side {first.side} of the threshold, and on side {second.side}"
    for place, (one, other) in enumerate(zip(first.gradients, second.gradients, strict=True)):
        if one is None or other is None:
            if one is not other:
                return f"gradient {place} exists for one oracle only"
            continue
        if one.values != other.values:
            return f"gradient {place} comes from other values"
        if abs(one.factor - other.factor) > abs(one.factor) / 2**200:
            return f"gradient {place} is multiplied by {float(one.factor)!r}, and by {float(other.factor)!r}"
    return None
