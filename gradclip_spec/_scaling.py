"""Gradients multiplied by a coefficient, in the fastest dtype that is exact enough."""

import functools
import math
import operator
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

import numpy as np

from gradclip_spec._coefficient import Coefficient
from gradclip_spec._double_words import unstacked
from gradclip_spec._library import Library
from gradclip_spec._scalars import FORMATS, Format

__all__ = ["in_groups", "scaled", "scaled_each"]

Array = Any


def scaled(library: Library, arrays: Sequence[Array], coefficient: Coefficient, inplace: bool) -> list[Array]:
    """Each array multiplied by one coefficient; if values may be looked at, unchanged arrays come back themselves."""
    if library.eager and coefficient.unchanged:
        return list(arrays)
    multiply = _multiply_eager if library.eager else _multiply_lazy
    indices = _indices_of_each(arrays, inplace)
    if len(library.dtypes) == 1 and len(indices) == len(arrays):
        # The most frequent case, without the time that grouping takes.
        return multiply(library, arrays, coefficient, inplace)
    return in_groups(
        lambda alike: multiply(library, alike, coefficient, inplace), arrays, indices, operator.attrgetter("dtype")
    )


def in_groups(
    function: Callable[[list[Array]], Sequence[Array]],
    arrays: Sequence[Array],
    indices: Collection[int],
    kind: Callable[[Array], Hashable],
) -> list[Array]:
    """The arrays, but at the indices what a function makes of them, given all those of one kind at a time."""
    groups: dict[Hashable, list[int]] = {}
    for index in indices:
        groups.setdefault(kind(arrays[index]), []).append(index)
    results = list(arrays)
    for alike in groups.values():
        for index, result in zip(alike, function([arrays[index] for index in alike]), strict=True):
            results[index] = result
    return results


def scaled_each(library: Library, arrays: Sequence[Array], coefficients: Coefficient, inplace: bool) -> list[Array]:
    """Each array multiplied by its own coefficient; an array to be left as it is comes back itself."""
    results = list(arrays)
    if not library.eager:
        # Taken apart all at once: where JAX has no float64 by default, it takes no second derivative of an index.
        parts = [unstacked(library.xp, numbers) for numbers in (*coefficients.factors, coefficients.unchanged)]
        for index in _indices_of_each(arrays, inplace):
            *numbers, unchanged = (part[index] for part in parts)
            (results[index],) = _multiply_lazy(
                library, [arrays[index]], Coefficient(numbers, unchanged, coefficients.error), inplace
            )
        return results
    # All at once, because to look at one coefficient takes longer than to multiply a small array.
    unchanged = coefficients.unchanged.tolist()
    numbers = functools.reduce(operator.mul, coefficients.factors).tolist()
    for index in _indices_of_each(arrays, inplace):
        if unchanged[index]:
            continue
        array, number = arrays[index], numbers[index]
        wide = _dtype_for(library, library.dtypes[array.dtype], number, coefficients.error)
        if wide is None:
            (results[index],) = _multiply_eager(library, [array], coefficients.at(index), inplace)
        else:
            (results[index],) = library.primitives.multiply([array], number, wide, inplace)
    return results


def _indices_of_each(arrays: Sequence[Array], inplace: bool) -> Collection[int]:
    """The indices of the arrays; in place, of each once, because an array may stand in a tree twice."""
    if not inplace or len(set(map(id, arrays))) == len(arrays):
        return range(len(arrays))
    return {id(array): index for index, array in enumerate(arrays)}.values()


def _multiply_eager(library: Library, arrays: Sequence[Array], coefficient: Coefficient, inplace: bool) -> list[Array]:
    # All of one dtype, which `wide` may be too.
    factors = [float(factor) for factor in coefficient.factors]
    product = math.prod(factors)
    wide = _dtype_for(library, library.dtypes[arrays[0].dtype], product, coefficient.error)
    if wide is not None:
        return library.primitives.multiply(arrays, product, wide, inplace)
    for step in _small_steps(factors, library.work_format):
        arrays = library.primitives.multiply(arrays, step, library.work_dtype, inplace)
    return list(arrays)


#: An element may be off by one and a half units in the last place: a half because it is rounded itself, and one
#: because the coefficient is off. One unit is at least this much of the element. To round the coefficient to float32
#: never takes more than that, but may together with the error of a norm whose squares were summed in float32; where
#: there is no such error, float32 always is exact enough.
_UNIT = 2.0**-24


def _dtype_for(library: Library, name: str, number: float, error: float) -> Any:
    """The fastest dtype that is exact enough to multiply arrays of a dtype by a number that may be off by an error.

    None if the number is too small for any, and would lose bits.
    """
    # No comparison with NaN is true, which is multiplied like an ordinary number.
    if abs(number) < 2.0 ** (FORMATS["float32"].smallest - 1):
        is_enough = False
    elif name == "float32" and library.has_float64:
        is_enough = not abs(float(np.float32(number)) - number) > (_UNIT - error) * abs(number)
    else:
        # Float16 and bfloat16 are rounded at the end.
        is_enough = name != "float64" or not library.has_float64
    if is_enough:
        return library.xp.float32
    if not library.has_float64 or abs(number) < 2.0 ** (FORMATS["float64"].smallest - 1):
        return None
    return library.xp.float64


def _small_steps(factors: Sequence[float], form: Format) -> list[float]:
    """Numbers that are normal in a format, with the product of factors of which all but the first are powers of two."""
    first, *powers = factors
    # Powers of two come last: only the last of them can be inexact, by underflow.
    fraction, exponent = math.frexp(first)
    exponent += sum(math.frexp(power)[1] - 1 for power in powers)
    steps, least = [fraction], form.smallest + 1
    while exponent:
        step = max(exponent, least)
        steps.append(2.0**step)
        exponent -= step
    return steps


def _multiply_lazy(library: Library, arrays: Sequence[Array], coefficient: Coefficient, inplace: bool) -> list[Array]:
    xp, primitives, steps = library.xp, library.primitives, coefficient.factors
    if library.narrower_than_float64(arrays):
        steps = [functools.reduce(operator.mul, steps)]
    products = list(arrays)
    for step in steps:
        products = primitives.multiply(products, step, library.work_dtype, inplace)
    if library.dtypes[arrays[0].dtype] in primitives.keeps_at_one:
        return products
    return [xp.where(coefficient.unchanged, array, product) for array, product in zip(arrays, products, strict=True)]
