"""Stack the gradients of examples for a call, and take the sums of an answer apart.

A case of a clip per example holds the gradients of each example (`Gradient.group` is its number). A function gets them
stacked: the first axis of an array counts the examples. It returns the sum of the clipped gradients. In a case, each
element is zero in all examples but one. So no sum rounds, and each element of a sum belongs to one example.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradclip_adapters.contract import DTYPES, Array, Gradient, Reply

__all__ = ["PER_EXAMPLE", "count_examples", "has_disjoint_examples", "split_inputs", "split_sums", "stack_examples"]

#: The operation, as the contract names it.
PER_EXAMPLE = "clip_per_example"


def count_examples(gradients: Sequence[Gradient]) -> int:
    """Return the number of examples."""
    return 1 + max((gradient.group for gradient in gradients), default=0)


def stack_examples(gradients: Sequence[Gradient]) -> tuple[Gradient, ...]:
    """Return a gradient for each tensor, which holds this tensor's gradients of all examples."""
    return tuple(_stack(f"g{number}", parts) for number, parts in enumerate(_list_tensors(gradients)))


def _list_tensors(gradients: Sequence[Gradient]) -> list[tuple[Gradient, ...]]:
    """Return, for each tensor, its gradients of all examples."""
    examples = [[one for one in gradients if one.group == number] for number in range(count_examples(gradients))]
    return list(zip(*examples, strict=True))


def _stack(name: str, parts: Sequence[Gradient]) -> Gradient:
    arrays = [part.array for part in parts if part.array is not None]
    if len(arrays) < len(parts):
        return replace(parts[0], name=name, array=None)
    shape = (len(arrays), *arrays[0].shape)
    return replace(parts[0], name=name, array=Array(arrays[0].dtype, shape, b"".join(one.data for one in arrays)))


def split_sums(gradients: Sequence[Gradient], reply: Reply) -> Reply:
    """Return a reply with the clipped gradients of each example in place of their sums."""
    tensors = _list_tensors(gradients)
    found: dict[tuple[int, int], Array] = {}
    if reply.malformed is None and len(reply.gradients) != len(tensors):
        return Reply((), malformed=f"returned {len(reply.gradients)} sums for {len(tensors)} tensors")
    for number, (parts, total) in enumerate(zip(tensors, reply.gradients, strict=reply.malformed is None)):
        given = parts[0].array
        if given is None or total is None or total.dtype not in DTYPES or total.shape != given.shape:
            what = "no sum" if total is None else f"a sum of the shape {total.shape} in {total.dtype}"
            shape = () if given is None else given.shape
            return Reply((), malformed=f"returned {what} for examples of the shape {shape}")
        found.update({(part.group, number): one for part, one in zip(parts, _split_sum(parts, total), strict=True)})
    results = tuple(found[key] for key in sorted(found))
    return replace(reply, gradients=results, inputs=split_inputs(gradients, reply.inputs), same_object=None)


def _split_sum(parts: Sequence[Gradient], total: Array) -> list[Array]:
    """Return the share of each example in a sum: its own elements, and zeros elsewhere."""
    owners = np.zeros(total.shape, dtype=int)
    every = [part.array.bits() for part in parts if part.array is not None]
    for number, bits in reversed(list(enumerate(every))):
        # All bits but the sign: an element that is not zero.
        owners[(bits << 1).astype(bits.dtype) != 0] = number
    given = parts[0].array
    same = given is not None and given.dtype == total.dtype
    shares = [np.where(owners == i, total.bits(), every[i] if same else 0) for i in range(len(parts))]
    return [Array(total.dtype, total.shape, _pack(share, total.dtype)) for share in shares]


def _pack(bits: np.ndarray[Any, Any], dtype: str) -> bytes:
    return bits.astype(DTYPES[dtype]).tobytes()


def split_inputs(
    gradients: Sequence[Gradient], inputs: Sequence[Array | None] | None
) -> tuple[Array | None, ...] | None:
    """Return the arrays that were passed, as the gradients of each example, or None if they have another form."""
    count, tensors = count_examples(gradients), _list_tensors(gradients)
    if inputs is None or len(inputs) != len(tensors):
        return None
    shares: dict[tuple[int, int], Array | None] = {}
    for number, array in enumerate(inputs):
        if array is None or array.shape[:1] != (count,):
            return None
        size = len(array.data) // count
        for example in range(count):
            data = array.data[example * size : (example + 1) * size]
            shares[example, number] = Array(array.dtype, array.shape[1:], data)
    return tuple(shares[key] for key in sorted(shares))


def has_disjoint_examples(gradients: Sequence[Gradient]) -> bool:
    """Return whether each element is zero in all examples but one."""
    for parts in _list_tensors(gradients):
        held = [(part.array.bits() << 1).astype(part.array.bits().dtype) != 0 for part in parts if part.array]
        if held and math.prod(held[0].shape) and np.sum(held, axis=0).max() > 1:
            return False
    return True
