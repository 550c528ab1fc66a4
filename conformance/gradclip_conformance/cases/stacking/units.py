"""Stack the units of a gradient for a call, and take the tensors of an answer apart.

A case of a unitwise clip holds each unit as a gradient of its own, with the parameter's unit. `Gradient.group` is
the number of the tensor to which a unit belongs. A function gets whole tensors, whose first axis counts the units, or
whose last axis does (the feature `units_last`). A unit with at most one axis that is alone in its tensor is the tensor.
So the judge, both oracles and the models of causes see a clip by norm whose thresholds differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradclip_adapters.contract import Array, Gradient, Reply

__all__ = ["UNITWISE", "list_tensors", "regroup_units", "split_unit_inputs", "split_units", "stack_units"]

#: The operation, as the contract names it.
UNITWISE = "clip_unitwise"


def stack_units(gradients: Sequence[Gradient], *, last: bool) -> tuple[Gradient, ...]:
    """Return a gradient for each tensor. The first axis counts its units, or the last one."""
    return tuple(_stack(f"g{number}", parts, last) for number, parts in enumerate(list_tensors(gradients)))


def list_tensors(gradients: Sequence[Gradient]) -> list[list[Gradient]]:
    """Return the units of each tensor."""
    numbers = dict.fromkeys(gradient.group for gradient in gradients)
    return [[one for one in gradients if one.group == number] for number in numbers]


def _is_stacked(parts: Sequence[Gradient]) -> bool:
    return len(parts) > 1 or (parts[0].array is not None and len(parts[0].array.shape) > 1)


def _stack(name: str, parts: Sequence[Gradient], last: bool) -> Gradient:
    whole = replace(parts[0], name=name, group=0)
    if not _is_stacked(parts):
        return whole
    array, parameter = (
        _join([one for one in arrays if one is not None], last)
        for arrays in ([part.array for part in parts], [part.parameter for part in parts])
    )
    return replace(whole, array=array, parameter=parameter)


def _join(arrays: Sequence[Array], last: bool) -> Array:
    bits = np.stack([array.bits() for array in arrays], axis=-1 if last else 0)
    return _make_array(arrays[0].dtype, bits)


def _make_array(dtype: str, bits: np.ndarray[Any, Any]) -> Array:
    return Array(dtype, bits.shape, bits.tobytes())


def regroup_units(
    parts: Sequence[Gradient], results: Sequence[Array]
) -> Iterator[tuple[tuple[Gradient, ...], list[Array]]]:
    """Yield other ways to divide a tensor: the whole tensor, its elements, slices and lines along each of its axes.

    Units whose parameter is zero are left out: their limit is the function's own least norm.
    """
    arrays = [[part.array for part in parts], [part.parameter for part in parts], results]
    given, weight, got = ([one for one in listed if one is not None] for listed in arrays)
    if not len(given) == len(weight) == len(got) == len(parts):
        return
    dtype, whole = given[0].dtype, [np.stack([array.bits() for array in listed]) for listed in (given, weight, got)]
    for units in zip(*map(_list_divisions, whole), strict=True):
        every = [
            (_make_array(dtype, one), _make_array(dtype, other), _make_array(dtype, result))
            for one, other, result in zip(*units, strict=True)
            if (other << 1).astype(other.dtype).any()
        ]
        gradients = [
            replace(parts[0], name=f"g{number}", array=one, parameter=other, group=number)
            for number, (one, other, _) in enumerate(every)
        ]
        if every:
            yield tuple(gradients), [result for _, _, result in every]


def _list_divisions(bits: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Yield arrays whose first axis counts the units."""
    yield bits[None]
    yield bits.reshape(-1, 1)
    for axis in range(bits.ndim):
        yield np.moveaxis(bits, axis, 0)
        yield np.moveaxis(bits, axis, -1).reshape(-1, bits.shape[axis])


def split_units(gradients: Sequence[Gradient], reply: Reply, *, last: bool) -> Reply:
    """Return a reply with the units of each tensor in place of the tensor."""
    tensors = list_tensors(gradients)
    # The judge compares the numbers of gradients itself, if each tensor is one unit.
    if reply.malformed is not None or len(gradients) == len(tensors) != len(reply.gradients):
        return reply
    if len(reply.gradients) != len(tensors):
        return Reply((), malformed=f"returned {len(reply.gradients)} gradients for {len(tensors)}")
    results: list[Array | None] = []
    for parts, array in zip(tensors, reply.gradients, strict=True):
        split = _split(parts, array, last)
        if split is None:
            shape = None if array is None else array.shape
            return Reply((), malformed=f"returned a gradient of the shape {shape} for {len(parts)} units")
        results += split
    same = reply.same_object
    if same is not None and len(same) == len(tensors):
        same = tuple(flag for flag, parts in zip(same, tensors, strict=True) for _ in parts)
    inputs = split_unit_inputs(gradients, reply.inputs, last=last)
    return replace(reply, gradients=tuple(results), inputs=inputs, same_object=same)


def split_unit_inputs(
    gradients: Sequence[Gradient], inputs: Sequence[Array | None] | None, *, last: bool
) -> tuple[Array | None, ...] | None:
    """Return the units of the tensors that were passed, or None if they have another form."""
    tensors = list_tensors(gradients)
    if inputs is None or len(inputs) != len(tensors):
        return None
    every = [_split(parts, array, last) for parts, array in zip(tensors, inputs, strict=True)]
    return None if None in every else tuple(array for split in every if split is not None for array in split)


def _split(parts: Sequence[Gradient], array: Array | None, last: bool) -> Sequence[Array | None] | None:
    """Return the units of a tensor, or None if it does not have the units that were passed."""
    if not _is_stacked(parts):
        return [array]
    shape = () if array is None else array.shape
    axis = len(shape) - 1 if last else 0
    if array is None or not shape or shape[axis] != len(parts):
        return None
    # The dtype may be one that the contract does not have.
    width = len(array.data) // max(int(np.prod(shape)), 1)
    elements = np.frombuffer(array.data, np.dtype((np.void, max(width, 1)))) if array.data else np.zeros(0, "V1")
    units = np.moveaxis(elements.reshape(shape), axis, 0)
    return [Array(array.dtype, unit.shape, unit.tobytes()) for unit in units]
