"""The coefficient of a clip by norm: the threshold over the norm, which may be smaller than any float."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradclip_spec import _double_words
from gradclip_spec._norm import Norm
from gradclip_spec._scalars import Scalars

__all__ = ["MOST_FACTORS", "Coefficient", "coefficient_of"]

Array = Any

#: Factors of a coefficient, at the most.
MOST_FACTORS = 3


@dataclass(frozen=True, eq=False)
class Coefficient:
    """A number that may be smaller than any float: a product, of which all factors but one are powers of two."""

    factors: Sequence[Array]
    #: Whether the gradients are to be left as they are; all factors are 1 then.
    unchanged: Array
    #: How far it may be off, relative to itself.
    error: float

    def at(self, index: int) -> "Coefficient":
        """The coefficient of one array, where there is one for each."""
        return Coefficient([factor[index] for factor in self.factors], self.unchanged[index], self.error)


def coefficient_of(scalars: Scalars, norm: Norm, clip_norm: float, eps: float) -> Coefficient:
    """`clip_norm / (norm + eps)`, or 1 where `norm + eps` is at most `clip_norm`."""
    xp = scalars.xp
    if norm.plain:
        # One factor is enough: if it underflows to zero in float64, all products in a narrower dtype are zero too.
        divisor = norm.high + eps
        one = xp.ones_like(divisor)
        # As an array: of a number that changes from call to call, torch's compiler keeps an old value in some places
        # (pytorch issue 194976).
        threshold = one * clip_norm
        within = divisor <= threshold
        quotient = xp.where(within, one, threshold) / xp.where(within, one, divisor)
        # It is 1 exactly where the norm is within the threshold. That is asked of it and not of `within`, because
        # compilers compute a comparison anew for each array, but a quotient once.
        return Coefficient([quotient], quotient == 1, norm.error)
    if clip_norm == math.inf:
        # An infinite norm does not exceed an infinite threshold; only NaN does not compare.
        quotient = xp.where(xp.isnan(norm.high), norm.high, xp.ones_like(norm.high))
        return Coefficient([quotient], quotient == 1, norm.error)
    if eps:
        norm = _plus(scalars, norm, eps)
    unchanged = _at_most(scalars, norm, clip_norm)
    factors = [xp.where(unchanged, xp.ones_like(x), x) for x in _factors(scalars, norm, clip_norm)]
    return Coefficient(factors, unchanged, norm.error)


def _factors(scalars: Scalars, norm: Norm, clip_norm: float) -> list[Array]:
    """Numbers, zero or normal, whose product is `clip_norm / norm` if that is at most 1; all but one powers of two."""
    xp, precision, largest = scalars.xp, scalars.precision, scalars.format.largest
    fraction, exponent = math.frexp(clip_norm)
    # Two to `exponent - norm.exponent` may be out of range, and is split. `missing` is what the threshold lacks to two
    # to minus half the range; of the rest, the first takes what leaves the quotient beside it in range.
    missing = min(exponent + largest // 2, 0)
    power = xp.clip(exponent - missing - norm.exponent, -2.0 * largest, largest / 2)
    share = 3.0 / 4 * largest
    first = _double_words.power_of_two(xp, xp.clip(power, -share, largest / 2), precision)
    second = _double_words.power_of_two(xp, xp.clip(power + share, scalars.negligible_exponent, 0.0), precision)
    divisor = xp.where(norm.high == 0, xp.ones_like(norm.high), norm.high)
    quotient = _double_words.divide(xp, xp.full_like(divisor, fraction), divisor, norm.low, precision)
    return [quotient * first, second, *([xp.full_like(divisor, 2.0**missing)] if missing else [])]


def _plus(scalars: Scalars, norm: Norm, eps: float) -> Norm:
    """The norm and `eps` together, with the exponent of the larger."""
    xp, precision = scalars.xp, scalars.precision
    own = xp.full_like(norm.exponent, math.frexp(eps)[1])
    exponent = xp.where(norm.exponent < own, own, norm.exponent)
    shift = xp.clip(norm.exponent - exponent, scalars.negligible_exponent, 0.0)
    scale = _double_words.power_of_two(xp, shift, precision)
    total, error = _double_words.add(norm.high * scale, eps * _double_words.power_of_two(xp, -exponent, precision))
    return Norm(total, _double_words.finite_or_zero(xp, error) + norm.low * scale, exponent, norm.error)


def _at_most(scalars: Scalars, norm: Norm, clip_norm: float) -> Array:
    bound = clip_norm * _double_words.power_of_two(scalars.xp, -norm.exponent, scalars.precision)
    return (norm.high < bound) | ((norm.high == bound) & (norm.low <= 0))
