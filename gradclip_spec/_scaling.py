"""The coefficient of a clip by norm, and the gradients multiplied by it."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradclip_spec import _words
from gradclip_spec._library import Library, Scalars, dtype_name
from gradclip_spec._norm import Norm

__all__ = ["Coefficient", "coefficient", "scaled"]

Array = Any


@dataclass(frozen=True)
class Coefficient:
    """The product of the factors `first * second * third`, which together may be smaller than any float.

    Where the identity holds, the gradient is to be left as it is.
    """

    first: Array
    second: Array
    third: float
    identity: Array

    def of(self, index: int) -> "Coefficient":
        """The coefficient of one leaf, where there is one for each."""
        return Coefficient(self.first[index], self.second[index], self.third, self.identity[index])


def coefficient(scalars: Scalars, norm: Norm, clip_norm: float, eps: float) -> Coefficient:
    """`clip_norm / norm`, or 1 where the norm is at most `clip_norm`; with `eps`, `clip_norm / (norm + eps)`."""
    xp, precision, largest = scalars.xp, scalars.precision, scalars.largest_exponent
    if clip_norm == math.inf:
        # An infinite norm does not exceed an infinite threshold; only NaN does not compare.
        one = xp.where(xp.isnan(norm.high), norm.high, xp.ones_like(norm.high))
        return Coefficient(one, xp.ones_like(one), 1.0, one == 1)
    fraction, exponent = math.frexp(clip_norm)
    # What is below any float even before the norm is divided by is left to a factor of its own.
    third = 2.0 ** min(exponent + largest // 2, 0)
    exponent = max(exponent, -largest // 2)
    high, low = norm.high, norm.low
    if eps:
        high, low = _add_eps(scalars, norm, eps)
    power = xp.clip(exponent - norm.exponent, -2.0 * largest, largest / 2)
    limit = 3.0 / 4 * largest
    first_power = _words.power_of_two(xp, xp.clip(power, -limit, largest / 2), precision)
    second_power = _words.power_of_two(xp, xp.clip(power + limit, -15.0 / 16 * largest, 0.0), precision)
    identity = _at_most(scalars, high, low, norm.exponent, clip_norm)
    zero = high == 0
    dividend = xp.full_like(high, fraction)
    safe_high = xp.where(zero, xp.ones_like(high), high)
    first = _words.divide(xp, dividend, safe_high, low, precision) * first_power
    return Coefficient(first, second_power, third, identity)


def _add_eps(scalars: Scalars, norm: Norm, eps: float) -> tuple[Array, Array]:
    xp = scalars.xp
    scaled_eps = eps * _words.power_of_two(xp, -norm.exponent, scalars.precision)
    total, error = _words.add(norm.high, scaled_eps)
    return total, xp.where(xp.isfinite(error), error, xp.zeros_like(error)) + norm.low


def _at_most(scalars: Scalars, high: Array, low: Array, exponent: Array, clip_norm: float) -> Array:
    bound = clip_norm * _words.power_of_two(scalars.xp, -exponent, scalars.precision)
    return (high < bound) | ((high == bound) & (low <= 0))


def scaled(library: Library, leaves: Sequence[Array], factor: Callable[[int], Coefficient], inplace: bool) -> list[Array]:
    """Each leaf multiplied by its coefficient; a leaf that is to be left as it is comes back itself."""
    multiply = _multiply_eager if library.eager else _multiply_lazy
    # In place, an array that stands in the tree twice is one array, to be multiplied once.
    done: set[int] = set()
    results = []
    for index, leaf in enumerate(leaves):
        if inplace and id(leaf) in done:
            results.append(leaf)
            continue
        done.add(id(leaf))
        results.append(multiply(library, leaf, factor(index), inplace))
    return results


def _multiply_eager(library: Library, x: Array, factor: Coefficient, inplace: bool) -> Array:
    if factor.identity or not math.prod(x.shape):
        return x
    for wide in _wider(library, x):
        product = float(factor.first) * float(factor.second) * factor.third
        if factor.first == 0 or not abs(product) < library.xp.finfo(wide).smallest_normal:
            return library.primitives.multiply(x, product, wide, inplace)
    for step in _steps(factor, 100 if wide == library.xp.float32 else 1000):
        x = library.primitives.multiply(x, step, wide, inplace)
    return x


def _wider(library: Library, x: Array) -> list[Any]:
    """The dtypes to multiply in, the one to try first at the front: float16 and bfloat16 are rounded only at the end."""
    if dtype_name(x.dtype) == "float64":
        return [library.xp.float64]
    return [library.xp.float32, library.xp.float64] if library.precision == 53 else [library.xp.float32]


def _steps(factor: Coefficient, limit: int) -> Iterator[float]:
    """The coefficient as a fraction and powers of two: only the last multiplication can be inexact by underflow."""
    fraction, exponent = math.frexp(float(factor.first))
    yield fraction
    exponent += sum(math.frexp(power)[1] - 1 for power in (float(factor.second), factor.third))
    while exponent:
        step = max(exponent, -limit)
        yield 2.0**step
        exponent -= step


def _multiply_lazy(library: Library, x: Array, factor: Coefficient, inplace: bool) -> Array:
    xp = library.xp
    one = xp.ones_like(factor.first)
    first = xp.where(factor.identity, one, factor.first)
    second = xp.where(factor.identity, one, factor.second)
    third = xp.where(factor.identity, one, one * factor.third)
    if library.wide([x]):
        return library.primitives.multiply(x, first * second * third, library.work, inplace)
    for step in (first, second) if factor.third == 1 else (first, second, third):
        x = library.primitives.multiply(x, step, library.work, inplace)
    return x
