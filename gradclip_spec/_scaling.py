"""The coefficient of a clip by norm, and the gradients multiplied by it."""

import functools
import math
import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from gradclip_spec import _words
from gradclip_spec._library import Library, Scalars, dtype_name
from gradclip_spec._norm import Norm

__all__ = ["Coefficient", "coefficient", "scaled", "scaled_each"]

Array = Any


@dataclass(frozen=True, eq=False)
class Coefficient:
    """The product of some factors, which may be smaller than any float; all but the first are powers of two.

    Where the identity holds, the gradient is to be left as it is.
    """

    factors: Sequence[Array]
    identity: Array

    def at(self, index: int) -> "Coefficient":
        """The coefficient of one leaf, where there is one for each."""
        return Coefficient([factor[index] for factor in self.factors], self.identity[index])


def coefficient(scalars: Scalars, norm: Norm, clip_norm: float, eps: float) -> Coefficient:
    """`clip_norm / norm`, or 1 where the norm is at most `clip_norm`; with `eps`, `clip_norm / (norm + eps)`."""
    xp, precision, largest = scalars.xp, scalars.precision, scalars.largest_exponent
    if clip_norm == math.inf:
        # An infinite norm does not exceed an infinite threshold; only NaN does not compare.
        one = xp.where(xp.isnan(norm.high), norm.high, xp.ones_like(norm.high))
        return Coefficient([one], one == 1)
    if norm.exponent is None:
        # What is below every float64 makes every element of a narrower dtype zero.
        total = norm.high + eps
        identity = total <= clip_norm
        return Coefficient([clip_norm / xp.where(identity, xp.ones_like(total), total)], identity)
    fraction, exponent = math.frexp(clip_norm)
    # What is below any float even before the norm is divided by is left to a factor of its own.
    third = min(exponent + largest // 2, 0)
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
    factors = [_words.divide(xp, dividend, safe_high, low, precision) * first_power, second_power]
    return Coefficient(factors + [xp.full_like(high, 2.0**third)] * (third < 0), identity)


def _add_eps(scalars: Scalars, norm: Norm, eps: float) -> tuple[Array, Array]:
    xp = scalars.xp
    scaled_eps = eps * _words.power_of_two(xp, -norm.exponent, scalars.precision)
    total, error = _words.add(norm.high, scaled_eps)
    return total, xp.where(xp.isfinite(error), error, xp.zeros_like(error)) + norm.low


def _at_most(scalars: Scalars, high: Array, low: Array, exponent: Array, clip_norm: float) -> Array:
    bound = clip_norm * _words.power_of_two(scalars.xp, -exponent, scalars.precision)
    return (high < bound) | ((high == bound) & (low <= 0))


def scaled(library: Library, leaves: Sequence[Array], factor: Coefficient, inplace: bool) -> list[Array]:
    """Each leaf multiplied by one coefficient; leaves to be left as they are come back themselves."""
    multiply = _multiply_eager if library.eager else _multiply_lazy
    if library.eager and factor.identity:
        return list(leaves)
    indices = _once(leaves, inplace)
    if len(library.names) == 1 and len(indices) == len(leaves):
        return multiply(library, leaves, factor, inplace)
    results = list(leaves)
    by_dtype: dict[Any, list[int]] = {}
    for index in indices:
        by_dtype.setdefault(leaves[index].dtype, []).append(index)
    for alike in by_dtype.values():
        products = multiply(library, [leaves[index] for index in alike], factor, inplace)
        for index, product in zip(alike, products, strict=True):
            results[index] = product
    return results


def scaled_each(library: Library, leaves: Sequence[Array], factors: Coefficient, inplace: bool) -> list[Array]:
    """Each leaf multiplied by its own coefficient; one to be left as it is comes back itself."""
    results = list(leaves)
    if not library.eager:
        for index in _once(leaves, inplace):
            (results[index],) = _multiply_lazy(library, [leaves[index]], factors.at(index), inplace)
        return results
    # All at once, because to look at one coefficient takes longer than to multiply a small leaf.
    identities = factors.identity.tolist()
    numbers = functools.reduce(operator.mul, factors.factors).tolist()
    plain: dict[Any, tuple[Any, float]] = {}
    for index in _once(leaves, inplace):
        if identities[index]:
            continue
        leaf, number = leaves[index], numbers[index]
        if leaf.dtype not in plain:
            wide = _candidates(library, leaf.dtype)[0]
            plain[leaf.dtype] = wide, float(library.xp.finfo(wide).smallest_normal)
        wide, smallest = plain[leaf.dtype]
        if abs(number) < smallest:
            (results[index],) = _multiply_eager(library, [leaf], factors.at(index), inplace)
        else:
            (results[index],) = library.primitives.multiply([leaf], number, wide, inplace)
    return results


def _once(leaves: Sequence[Array], inplace: bool) -> Collection[int]:
    """The indices of the leaves; in place, of each once, because an array may stand in a tree twice."""
    if not inplace or len(set(map(id, leaves))) == len(leaves):
        return range(len(leaves))
    return {id(leaf): index for index, leaf in enumerate(leaves)}.values()


def _multiply_eager(library: Library, leaves: Sequence[Array], factor: Coefficient, inplace: bool) -> list[Array]:
    if factor.identity:
        return list(leaves)
    wide, steps = _steps(library, leaves[0].dtype, factor)
    for step in steps:
        leaves = library.primitives.multiply(leaves, step, wide, inplace)
    return list(leaves)


def _steps(library: Library, dtype: Any, factor: Coefficient) -> tuple[Any, list[float]]:
    """The dtype to multiply in, and the numbers to multiply with: one, unless it is smaller than any float."""
    first, *powers = map(float, factor.factors)
    product = functools.reduce(operator.mul, powers, first)
    for wide in _candidates(library, dtype):
        smallest = float(library.xp.finfo(wide).smallest_normal)
        if first == 0 or not abs(product) < smallest:
            return wide, [product]
    # Powers of two come last: only the last of them can be inexact, by underflow.
    fraction, exponent = math.frexp(first)
    exponent += sum(math.frexp(power)[1] - 1 for power in powers)
    steps = [fraction]
    while exponent:
        steps.append(2.0 ** max(exponent, 2 - int(-math.log2(smallest))))
        exponent -= math.frexp(steps[-1])[1] - 1
    return wide, steps


def _candidates(library: Library, dtype: Any) -> list[Any]:
    """The dtypes to multiply in, the fastest first; float16 and bfloat16 are rounded only at the end."""
    if dtype_name(dtype) == "float64":
        return [library.xp.float64]
    return [library.xp.float32, library.xp.float64] if library.precision == 53 else [library.xp.float32]


def _multiply_lazy(library: Library, leaves: Sequence[Array], factor: Coefficient, inplace: bool) -> list[Array]:
    xp, primitives = library.xp, library.primitives
    one = xp.ones_like(factor.factors[0])
    steps = [xp.where(factor.identity, one, number) for number in factor.factors]
    if library.wide(leaves):
        steps = [functools.reduce(operator.mul, steps)]
    products = list(leaves)
    for step in steps:
        products = primitives.multiply(products, step, library.work, inplace)
    if primitives.one_is_neutral:
        return products
    return [xp.where(factor.identity, leaf, product) for leaf, product in zip(leaves, products, strict=True)]
