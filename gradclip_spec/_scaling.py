"""The coefficient of a clip by norm, and the gradients multiplied by it."""

import functools
import math
import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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
        """The coefficient of one array, where there is one for each."""
        return Coefficient([factor[index] for factor in self.factors], self.identity[index])


def coefficient(scalars: Scalars, norm: Norm, clip_norm: float, eps: float) -> Coefficient:
    """`clip_norm / norm`, or 1 where the norm is at most `clip_norm`; with `eps`, `clip_norm / (norm + eps)`."""
    xp = scalars.xp
    if clip_norm == math.inf:
        # An infinite norm does not exceed an infinite threshold; only NaN does not compare.
        one = xp.where(xp.isnan(norm.high), norm.high, xp.ones_like(norm.high))
        return Coefficient([one], one == 1)
    if norm.exponent is None:
        # What is below every float64 makes every element of a narrower dtype zero.
        total = norm.high + eps
        identity = total <= clip_norm
        return Coefficient([clip_norm / xp.where(identity, xp.ones_like(total), total)], identity)
    if eps:
        norm = _plus(scalars, norm, eps)
    return Coefficient(_factors(scalars, norm, clip_norm), _at_most(scalars, norm, clip_norm))


def _factors(scalars: Scalars, norm: Norm, clip_norm: float) -> list[Array]:
    """Normal numbers whose product is `clip_norm / norm`, where that is at most 1; all but the first powers of two."""
    xp, precision, largest = scalars.xp, scalars.precision, scalars.largest_exponent
    fraction, exponent = math.frexp(clip_norm)
    # Two to `exponent - norm.exponent` is shared out. What a threshold below two to half the range lacks to that is
    # the last factor; of what is left, the first takes as much as leaves the quotient beside it in range.
    missing = min(exponent + largest // 2, 0)
    power = xp.clip(exponent - missing - norm.exponent, -2.0 * largest, largest / 2)
    share = 3.0 / 4 * largest
    first = _words.power_of_two(xp, xp.clip(power, -share, largest / 2), precision)
    second = _words.power_of_two(xp, xp.clip(power + share, -15.0 / 16 * largest, 0.0), precision)
    divisor = xp.where(norm.high == 0, xp.ones_like(norm.high), norm.high)
    quotient = _words.divide(xp, xp.full_like(divisor, fraction), divisor, norm.low, precision)
    return [quotient * first, second, *([xp.full_like(divisor, 2.0**missing)] if missing else [])]


def _plus(scalars: Scalars, norm: Norm, eps: float) -> Norm:
    """The norm and `eps` together, with the exponent of the larger."""
    xp, precision = scalars.xp, scalars.precision
    own = xp.full_like(norm.exponent, math.frexp(eps)[1])
    exponent = xp.where(norm.exponent < own, own, norm.exponent)
    shift = xp.clip(norm.exponent - exponent, -15.0 / 16 * scalars.largest_exponent, 0.0)
    scale = _words.power_of_two(xp, shift, precision)
    total, error = _words.add(norm.high * scale, eps * _words.power_of_two(xp, -exponent, precision))
    return Norm(total, _words.finite_or_zero(xp, error) + norm.low * scale, exponent)


def _at_most(scalars: Scalars, norm: Norm, clip_norm: float) -> Array:
    bound = clip_norm * _words.power_of_two(scalars.xp, -norm.exponent, scalars.precision)
    return (norm.high < bound) | ((norm.high == bound) & (norm.low <= 0))


def scaled(library: Library, arrays: Sequence[Array], factor: Coefficient, inplace: bool) -> list[Array]:
    """Each array multiplied by one coefficient; arrays to be left as they are come back themselves."""
    multiply = _multiply_eager if library.eager else _multiply_lazy
    if library.eager and factor.identity:
        return list(arrays)
    indices = _once(arrays, inplace)
    if len(library.dtypes) == 1 and len(indices) == len(arrays):
        return multiply(library, arrays, factor, inplace)
    results = list(arrays)
    by_dtype: dict[Any, list[int]] = {}
    for index in indices:
        by_dtype.setdefault(arrays[index].dtype, []).append(index)
    for alike in by_dtype.values():
        products = multiply(library, [arrays[index] for index in alike], factor, inplace)
        for index, product in zip(alike, products, strict=True):
            results[index] = product
    return results


def scaled_each(library: Library, arrays: Sequence[Array], factors: Coefficient, inplace: bool) -> list[Array]:
    """Each array multiplied by its own coefficient; one to be left as it is comes back itself."""
    results = list(arrays)
    if not library.eager:
        # Taken apart all at once: where JAX has no float64 by default, it cannot go back twice through an index.
        parts = [library.xp.unstack(numbers) for numbers in (*factors.factors, factors.identity)]
        for index in _once(arrays, inplace):
            *numbers, identity = (part[index] for part in parts)
            (results[index],) = _multiply_lazy(library, [arrays[index]], Coefficient(numbers, identity), inplace)
        return results
    # All at once, because to look at one coefficient takes longer than to multiply a small array.
    identities = factors.identity.tolist()
    numbers = functools.reduce(operator.mul, factors.factors).tolist()
    ways = {dtype: _ways(library, dtype) for dtype in library.dtypes}
    for index in _once(arrays, inplace):
        if identities[index]:
            continue
        array, number = arrays[index], numbers[index]
        wide = _dtype_for(ways[array.dtype], number)
        if wide is None:
            (results[index],) = _multiply_eager(library, [array], factors.at(index), inplace)
        else:
            (results[index],) = library.primitives.multiply([array], number, wide, inplace)
    return results


def _once(arrays: Sequence[Array], inplace: bool) -> Collection[int]:
    """The indices of the arrays; in place, of each once, because an array may stand in a tree twice."""
    if not inplace or len(set(map(id, arrays))) == len(arrays):
        return range(len(arrays))
    return {id(array): index for index, array in enumerate(arrays)}.values()


def _multiply_eager(library: Library, arrays: Sequence[Array], factor: Coefficient, inplace: bool) -> list[Array]:
    wide, steps = _steps(_ways(library, arrays[0].dtype), factor)
    for step in steps:
        arrays = library.primitives.multiply(arrays, step, wide, inplace)
    return list(arrays)


@dataclass(frozen=True)
class _Way:
    """A dtype to multiply in by one number."""

    dtype: Any
    #: The smallest normal number of the dtype: a smaller one would lose bits.
    smallest: float
    #: How much of a number its rounding to the dtype may change.
    change: float


#: An element may be off by one and a half units in the last place: a half by its own rounding, and one, which is
#: `2**-24` of it, by the coefficient. An eighth of that is for the error of a norm that was summed in float32: three
#: standard errors of an ordinary one (see `_strips`).
_CHANGE = 7 / 8 * 2.0**-24


def _ways(library: Library, dtype: Any) -> list[_Way]:
    """The dtypes to multiply arrays of a dtype in, the fastest first; float16 and bfloat16 are rounded at the end."""
    name = dtype_name(dtype)
    last = _Way(library.xp.float64, 2.0**-1022, math.inf) if library.has_float64 else None
    if last and name == "float64":
        return [last]
    first = _Way(library.xp.float32, 2.0**-126, _CHANGE if last and name == "float32" else math.inf)
    return [first, last] if last else [first]


def _dtype_for(ways: Sequence[_Way], number: float) -> Any:
    """The dtype to multiply in by a number, or None if it is too small for all."""
    for way in ways:
        rounded = float(np.float32(number)) if way.change < math.inf else number
        if not abs(number) < way.smallest and not abs(rounded - number) > way.change * abs(number):
            return way.dtype
    return None


def _steps(ways: Sequence[_Way], factor: Coefficient) -> tuple[Any, list[float]]:
    """The dtype to multiply in, and the numbers to multiply with: one, unless it is smaller than any float."""
    first, *powers = map(float, factor.factors)
    if first == 0:
        return ways[0].dtype, [first]
    product = functools.reduce(operator.mul, powers, first)
    wide = _dtype_for(ways, product)
    if wide is not None:
        return wide, [product]
    # Powers of two come last: only the last of them can be inexact, by underflow.
    fraction, exponent = math.frexp(first)
    exponent += sum(math.frexp(power)[1] - 1 for power in powers)
    steps = [fraction]
    while exponent:
        steps.append(2.0 ** max(exponent, 2 - int(-math.log2(ways[-1].smallest))))
        exponent -= math.frexp(steps[-1])[1] - 1
    return ways[-1].dtype, steps


def _multiply_lazy(library: Library, arrays: Sequence[Array], factor: Coefficient, inplace: bool) -> list[Array]:
    xp, primitives = library.xp, library.primitives
    one = xp.ones_like(factor.factors[0])
    steps = [xp.where(factor.identity, one, number) for number in factor.factors]
    if library.wider_than(arrays):
        steps = [functools.reduce(operator.mul, steps)]
    products = list(arrays)
    for step in steps:
        products = primitives.multiply(products, step, library.work, inplace)
    if primitives.one_is_neutral:
        return products
    return [xp.where(factor.identity, array, product) for array, product in zip(arrays, products, strict=True)]
