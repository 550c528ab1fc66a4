"""Divide the tensors of a row into the gradients of examples, or into units with parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from gradclip_adapters.contract import DTYPES, Array, Gradient
from gradclip_adapters.recipes import Recipe, expand

from ..cases.stacking import list_parts
from .thresholds import estimate_norm

__all__ = ["choose_example", "split_examples", "split_units"]

#: The seed and the exponent of parameters. Their norms are above the least norm of any function.
PARAMETER_SEED, PARAMETER_EXPONENT = 11, -3

#: The places of a tensor belong to examples in runs of this many elements.
RUN = 3


def split_examples(gradients: Sequence[Gradient], count: int) -> list[Gradient]:
    """Return the gradients of each example. Each element of a tensor belongs to one example, and is zero in others."""
    return [
        gradient.copy_with(array=_take_share(gradient.array, number, count), group=number)
        for number in range(count)
        for gradient in gradients
    ]


def _take_share(array: Array | None, number: int, count: int) -> Array | None:
    """Return an array with the elements of one example, and zeros elsewhere."""
    if array is None:
        return None
    bits = array.bits().ravel()
    # The first example has the first elements of every tensor, so that no example is empty in long tensors only.
    owners = np.arange(bits.size) // RUN % count
    share = np.where(owners == number, bits, 0).astype(DTYPES[array.dtype])
    return Array(array.dtype, array.shape, share.tobytes())


def choose_example(gradients: Sequence[Gradient], layers: str) -> tuple[float, list[Array]]:
    """Return the arrays that share the largest finite norm, and the part of the threshold that this norm has."""
    existing = [(one.group, one.array) for one in gradients if one.array is not None]
    numbers = range(1 + max((group for group, _ in existing), default=0))
    examples = [[array for group, array in existing if group == number] for number in numbers]
    if layers == "no-layers":
        return 1.0, max(examples, key=lambda arrays: estimate_norm(arrays, 2.0))
    alone = [array for _, array in existing]
    if not alone:
        return 1.0, []
    largest = max(alone, key=lambda array: estimate_norm([array], 2.0))
    if layers == "layers-equal":
        return 1 / math.sqrt(len(examples[0])), [largest]
    sizes = sum(math.prod(array.shape) for array in examples[0])
    return math.sqrt(math.prod(largest.shape) / max(sizes, 1)) or 1.0, [largest]


def split_units(gradient: Gradient, number: int, *, has_parameter: bool) -> Iterator[Gradient]:
    """Yield the units of a tensor, each with its parameter. The first axis counts the units; a vector is one unit."""
    for unit in _list_units_with_parameters(gradient, number):
        yield unit if has_parameter else unit.copy_with(parameter=None)


def _list_units_with_parameters(gradient: Gradient, number: int) -> Iterator[Gradient]:
    array = gradient.array
    if array is None:
        weight = Array("float32", (1,), expand(Recipe("numbers", PARAMETER_SEED), "float32", (1,)))
        yield gradient.copy_with(parameter=weight, group=number)
        return
    recipe = Recipe("numbers", PARAMETER_SEED + number, PARAMETER_EXPONENT)
    weight = Array(array.dtype, array.shape, expand(recipe, array.dtype, array.shape))
    if len(array.shape) < 2:
        yield gradient.copy_with(parameter=weight, group=number)
        return
    # Without its height, the only row of a matrix would be a vector.
    height = 1 if array.shape[0] == 1 and len(array.shape) == 2 else None
    for unit, parameter in zip(list_parts(array), list_parts(weight), strict=True):
        yield gradient.copy_with(array=unit, parameter=parameter, group=number, height=height)
