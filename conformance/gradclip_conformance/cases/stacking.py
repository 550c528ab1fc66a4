"""Stack the gradients of a case for a call, and take the answer apart: examples and units.

A case of a clip per example holds the gradients of each example (`Gradient.group` is its number). A function gets them
stacked: the first axis of an array counts the examples. It returns the sum of the clipped gradients. In a case, each
element is zero in all examples but one, or several examples of the same norm have it, and their number is a power of
two. So each element of a sum belongs to one example, or in equal parts to several. A batch without examples, as
Poisson sampling draws, has tensors of zeros with the number `NO_EXAMPLE`, which are the sum that is expected.

A case of a unitwise clip holds each unit as a gradient of its own, with the parameter's unit if the clip is relative.
`Gradient.group` is the number of the tensor to which a unit belongs. A function gets whole tensors, whose first axis
counts the units, or whose last axis does (the feature `units_last`). A unit with at most one axis that is alone in its
tensor is the tensor, unless its `Gradient.height` is 1: then the tensor is a matrix with one row. So the judge, both
oracles and the models of causes see a clip by norm whose thresholds differ.

The gradients of all other operations are passed as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from gradclip_adapters.contract import DTYPES, Array, EntryPoint, Gradient, Reply
from gradclip_adapters.operations import OPERATIONS, Operation

from ..oracle.formats import read_float64_values, round_all

#: The number of the example of gradients that no example has.
NO_EXAMPLE = -1


@dataclass(frozen=True)
class Stacking:
    """The form in which the gradients of a case are passed to an entry point."""

    entry_point: EntryPoint

    def stack(self, gradients: Sequence[Gradient]) -> tuple[Gradient, ...]:
        """Return the gradients that a call passes."""
        if self._operation.divides_gradients:
            return stack_units(gradients, last=self._is_last)
        return stack_examples(gradients) if self._operation.sums_examples else tuple(gradients)

    def split_reply(self, gradients: Sequence[Gradient], reply: Reply) -> Reply:
        """Return a reply with a result for each gradient of the case."""
        if self._operation.divides_gradients:
            return split_units(gradients, reply, last=self._is_last)
        return split_sums(gradients, reply) if self._operation.sums_examples else reply

    def split_inputs(
        self, gradients: Sequence[Gradient], inputs: tuple[Array | None, ...] | None
    ) -> tuple[Array | None, ...] | None:
        """Return the arrays that were passed, one for each gradient of the case, or None if they have another form."""
        if self._operation.divides_gradients:
            return split_unit_inputs(gradients, inputs, last=self._is_last)
        return split_inputs(gradients, inputs) if self._operation.sums_examples else inputs

    @property
    def _operation(self) -> Operation:
        return OPERATIONS[self.entry_point.operation]

    @property
    def _is_last(self) -> bool:
        return "units_last" in self.entry_point.features


# The gradients of several examples, which are summed.


def count_examples(gradients: Sequence[Gradient]) -> int:
    """Return the number of examples."""
    return 1 + max((gradient.group for gradient in gradients), default=0)


def stack_examples(gradients: Sequence[Gradient]) -> tuple[Gradient, ...]:
    """Return a gradient for each tensor, which holds this tensor's gradients of all examples."""
    return tuple(
        _stack_example(f"g{number}", parts) for number, parts in enumerate(_list_tensors_of_examples(gradients))
    )


def _list_tensors_of_examples(gradients: Sequence[Gradient]) -> list[tuple[Gradient, ...]]:
    """Return, for each tensor, its gradients of all examples."""
    count = count_examples(gradients)
    examples = [[one for one in gradients if one.group == number] for number in range(count)] or [list(gradients)]
    return list(zip(*examples, strict=True))


def _stack_example(name: str, parts: Sequence[Gradient]) -> Gradient:
    arrays = [part.array for part in parts]
    whole = None if None in arrays else _join(arrays, last=False)
    if whole is not None and parts[0].group == NO_EXAMPLE:
        return parts[0].copy_with(name=name, group=0, array=Array(whole.dtype, (0, *whole.shape[1:]), b""))
    return parts[0].copy_with(name=name, array=whole)


def split_sums(gradients: Sequence[Gradient], reply: Reply) -> Reply:
    """Return a reply with the clipped gradients of each example in place of their sums."""
    tensors = _list_tensors_of_examples(gradients)
    if reply.malformed is None and len(reply.gradients) != len(tensors):
        return Reply((), malformed=f"returned {len(reply.gradients)} sums for {len(tensors)} tensors")
    shares = []
    for parts, total in zip(tensors, reply.gradients, strict=reply.malformed is None):
        given = parts[0].array
        if given is None or total is None or total.dtype not in DTYPES or total.shape != given.shape:
            what = "no sum" if total is None else f"a sum of the shape {total.shape} in {total.dtype}"
            shape = () if given is None else given.shape
            return Reply((), malformed=f"returned {what} for examples of the shape {shape}")
        shares.append(_split_sum(parts, total))
    inputs = split_inputs(gradients, reply.inputs)
    return replace(reply, gradients=_list_by_example(shares), inputs=inputs, same_object=None)


def _list_by_example(tensors: Sequence[Sequence[Array]]) -> tuple[Array, ...]:
    """Return the arrays of the first example, then those of the second one, and so on."""
    return tuple(chain.from_iterable(zip(*tensors, strict=True)))


def _split_sum(parts: Sequence[Gradient], total: Array) -> list[Array]:
    """Return the share of each example in a sum: its own elements, or an equal part of those that several have."""
    every = [part.array.bits() for part in parts if part.array is not None]
    # All bits but the sign: an element that is not zero.
    held = np.stack([(bits << 1).astype(bits.dtype) != 0 for bits in every])
    # What is zero in all examples belongs to the first one.
    held[0] |= ~held.any(0)
    counts = held.sum(0)
    divided = total.bits()
    if counts.max(initial=1) > 1:
        with np.errstate(invalid="ignore"):
            quotients = read_float64_values(total) / counts.ravel()
        divided = replace(total, data=round_all(quotients, total.dtype)).bits()
    given = parts[0].array
    same = given is not None and given.dtype == total.dtype
    shares = [np.where(mine, divided, own if same else 0) for mine, own in zip(held, every, strict=True)]
    return [_make_array(total.dtype, share.astype(DTYPES[total.dtype])) for share in shares]


def split_inputs(
    gradients: Sequence[Gradient], inputs: Sequence[Array | None] | None
) -> tuple[Array | None, ...] | None:
    """Return the arrays that were passed, as the gradients of each example, or None if they have another form."""
    count = count_examples(gradients)
    if inputs is None or len(inputs) != len(_list_tensors_of_examples(gradients)):
        return None
    passed = [array for array in inputs if array is not None and array.shape[:1] == (count,)]
    if len(passed) < len(inputs):
        return None
    # Without examples, nothing was passed that could have changed.
    return _list_by_example([list_parts(array) for array in passed]) if count else tuple(one.array for one in gradients)


def list_parts(array: Array, axis: int = 0) -> list[Array]:
    """Return the parts of an array along an axis."""
    # The dtype may be one that the contract does not have, with any number of bytes.
    count = math.prod(array.shape)
    width = len(array.data) // max(count, 1)
    elements = np.frombuffer(array.data, f"V{width}", count) if width else np.zeros(count, "V1")
    parts = np.moveaxis(elements.reshape(array.shape), axis, 0)
    return [Array(array.dtype, part.shape, part.tobytes()) for part in parts]


# The units of a gradient, which are clipped one by one.


def stack_units(gradients: Sequence[Gradient], *, last: bool) -> tuple[Gradient, ...]:
    """Return a gradient for each tensor. The first axis counts its units, or the last one."""
    return tuple(_stack_unit_tensor(f"g{number}", parts, last) for number, parts in enumerate(list_tensors(gradients)))


def list_tensors(gradients: Sequence[Gradient]) -> list[list[Gradient]]:
    """Return the units of each tensor."""
    numbers = dict.fromkeys(gradient.group for gradient in gradients)
    return [[one for one in gradients if one.group == number] for number in numbers]


def _is_stacked(parts: Sequence[Gradient]) -> bool:
    first = parts[0]
    return len(parts) > 1 or first.height is not None or (first.array is not None and len(first.array.shape) > 1)


def _stack_unit_tensor(name: str, parts: Sequence[Gradient], last: bool) -> Gradient:
    whole = parts[0].copy_with(name=name, group=0, height=None)
    if not _is_stacked(parts):
        return whole
    array = _join([part.array for part in parts], last)
    return whole.copy_with(array=array, parameter=_join([part.parameter for part in parts], last))


def _join(units: Sequence[Array | None], last: bool) -> Array | None:
    """Return the array of these units, or None if there are none."""
    arrays = [unit for unit in units if unit is not None]
    if not arrays:
        return None
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
    is_relative = any(part.parameter is not None for part in parts)
    weights = [part.parameter if is_relative else part.array for part in parts]
    given, weight, got = (
        [one for one in listed if one is not None] for listed in ([part.array for part in parts], weights, results)
    )
    if not len(given) == len(weight) == len(got) == len(parts):
        return
    dtype, whole = given[0].dtype, [np.stack([array.bits() for array in listed]) for listed in (given, weight, got)]
    for units in zip(*map(_list_divisions, whole), strict=True):
        every = [
            (_make_array(dtype, one), _make_array(dtype, other) if is_relative else None, _make_array(dtype, result))
            for one, other, result in zip(*units, strict=True)
            if not is_relative or (other << 1).astype(other.dtype).any()
        ]
        gradients = [
            parts[0].copy_with(name=f"g{number}", array=one, parameter=other, group=number, height=None)
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
        split = _split_tensor(parts, array, last)
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
    every = [_split_tensor(parts, array, last) for parts, array in zip(tensors, inputs, strict=True)]
    return None if None in every else tuple(array for split in every if split is not None for array in split)


def _split_tensor(parts: Sequence[Gradient], array: Array | None, last: bool) -> Sequence[Array | None] | None:
    """Return the units of a tensor, or None if it does not have the units that were passed."""
    if not _is_stacked(parts):
        return [array]
    shape = () if array is None else array.shape
    axis = len(shape) - 1 if last else 0
    return list_parts(array, axis) if array is not None and shape and shape[axis] == len(parts) else None
