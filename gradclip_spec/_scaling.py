"""Gradients multiplied by a coefficient, each element rounded once, in the fastest dtype that is exact enough."""

import functools
import math
import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradclip_spec._coefficient import Coefficient
from gradclip_spec._double_words import unstacked
from gradclip_spec._library import Library
from gradclip_spec._scalars import dtype_name

__all__ = ["scaled", "scaled_each"]

Array = Any


def scaled(library: Library, arrays: Sequence[Array], coefficient: Coefficient, inplace: bool) -> list[Array]:
    """Each array multiplied by one coefficient; arrays to be left as they are come back themselves."""
    multiply = _multiply_eager if library.eager else _multiply_lazy
    if library.eager and coefficient.unchanged:
        return list(arrays)
    indices = _once(arrays, inplace)
    if len(library.dtypes) == 1 and len(indices) == len(arrays):
        return multiply(library, arrays, coefficient, inplace)
    results = list(arrays)
    by_dtype: dict[Any, list[int]] = {}
    for index in indices:
        by_dtype.setdefault(arrays[index].dtype, []).append(index)
    for alike in by_dtype.values():
        products = multiply(library, [arrays[index] for index in alike], coefficient, inplace)
        for index, product in zip(alike, products, strict=True):
            results[index] = product
    return results


def scaled_each(library: Library, arrays: Sequence[Array], coefficients: Coefficient, inplace: bool) -> list[Array]:
    """Each array multiplied by its own coefficient; an array to be left as it is comes back itself."""
    results = list(arrays)
    if not library.eager:
        # Taken apart all at once: where JAX has no float64 by default, it takes no second derivative of an index.
        parts = [unstacked(library.xp, numbers) for numbers in (*coefficients.factors, coefficients.unchanged)]
        for index in _once(arrays, inplace):
            *numbers, unchanged = (part[index] for part in parts)
            (results[index],) = _multiply_lazy(
                library, [arrays[index]], Coefficient(numbers, unchanged, coefficients.error), inplace
            )
        return results
    # All at once, because to look at one coefficient takes longer than to multiply a small array.
    unchanged = coefficients.unchanged.tolist()
    numbers = functools.reduce(operator.mul, coefficients.factors).tolist()
    ways = {dtype: _ways(library, dtype, coefficients.error) for dtype in library.dtypes}
    for index in _once(arrays, inplace):
        if unchanged[index]:
            continue
        array, number = arrays[index], numbers[index]
        wide = _dtype_for(ways[array.dtype], number)
        if wide is None:
            (results[index],) = _multiply_eager(library, [array], coefficients.at(index), inplace)
        else:
            (results[index],) = library.primitives.multiply([array], number, wide, inplace)
    return results


def _once(arrays: Sequence[Array], inplace: bool) -> Collection[int]:
    """The indices of the arrays; in place, of each once, because an array may stand in a tree twice."""
    if not inplace or len(set(map(id, arrays))) == len(arrays):
        return range(len(arrays))
    return {id(array): index for index, array in enumerate(arrays)}.values()


def _multiply_eager(library: Library, arrays: Sequence[Array], coefficient: Coefficient, inplace: bool) -> list[Array]:
    wide, steps = _steps(_ways(library, arrays[0].dtype, coefficient.error), coefficient)
    for step in steps:
        arrays = library.primitives.multiply(arrays, step, wide, inplace)
    return list(arrays)


@dataclass(frozen=True)
class _Way:
    """A dtype to multiply in by one number."""

    dtype: Any
    #: The smallest normal number of the dtype: a smaller one would lose bits.
    smallest: float
    #: The most that the rounding to the dtype may change of a number, relative to it.
    tolerance: float


#: An element may be off by one and a half units in the last place: by a half because it is rounded itself, and by one
#: because the coefficient is off, of which a unit is at least this much. To round the coefficient to float32 never
#: takes more. So float64 is needed only where the norm is off too, its squares having been summed in float32, or where
#: the coefficient is subnormal in float32.
_UNIT = 2.0**-24


def _ways(library: Library, dtype: Any, error: float) -> list[_Way]:
    """The dtypes to multiply arrays of a dtype in, the fastest first, by a coefficient that may be off by an error.

    Float16 and bfloat16 are rounded at the end.
    """
    name = dtype_name(dtype)
    last = _Way(library.xp.float64, 2.0**-1022, math.inf) if library.has_float64 else None
    if last and name == "float64":
        return [last]
    first = _Way(library.xp.float32, 2.0**-126, _UNIT - error if last and name == "float32" else math.inf)
    return [first, last] if last else [first]


def _dtype_for(ways: Sequence[_Way], number: float) -> Any:
    """The dtype to multiply in by a number, or None if it is too small for all."""
    for way in ways:
        in_float32 = float(np.float32(number)) if way.tolerance < math.inf else number
        # No comparison with NaN is true: it is multiplied in the first dtype.
        if not (abs(number) < way.smallest or abs(in_float32 - number) > way.tolerance * abs(number)):
            return way.dtype
    return None


def _steps(ways: Sequence[_Way], coefficient: Coefficient) -> tuple[Any, list[float]]:
    """The dtype to multiply in, and the numbers to multiply with: one, unless it is smaller than any float."""
    first, *powers = map(float, coefficient.factors)
    product = functools.reduce(operator.mul, powers, first)
    wide = ways[0].dtype if first == 0 else _dtype_for(ways, product)
    return (ways[-1].dtype, _small_steps(ways[-1], first, powers)) if wide is None else (wide, [product])


def _small_steps(way: _Way, first: float, powers: Sequence[float]) -> list[float]:
    """Numbers that are normal, whose product is that of a number and of powers of two."""
    # Powers of two come last: only the last of them can be inexact, by underflow.
    fraction, exponent = math.frexp(first)
    exponent += sum(math.frexp(power)[1] - 1 for power in powers)
    steps, least = [fraction], 2 + int(math.log2(way.smallest))
    while exponent:
        step = max(exponent, least)
        steps.append(2.0**step)
        exponent -= step
    return steps


def _multiply_lazy(library: Library, arrays: Sequence[Array], coefficient: Coefficient, inplace: bool) -> list[Array]:
    xp, primitives, steps = library.xp, library.primitives, coefficient.factors
    if library.squares_fit_float64(arrays):
        steps = [functools.reduce(operator.mul, steps)]
    products = list(arrays)
    for step in steps:
        products = primitives.multiply(products, step, library.work_dtype, inplace)
    if dtype_name(arrays[0].dtype) in primitives.keeps_at_one:
        return products
    return [xp.where(coefficient.unchanged, array, product) for array, product in zip(arrays, products, strict=True)]
