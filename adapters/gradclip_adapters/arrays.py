"""How the gradients of a call become tensors: memory layout, and one tensor that stands in the list twice."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, TypeVar

import numpy as np

from .contract import Gradient, Unsupported

__all__ = ["build_tensors", "lay_out"]

Tensor = TypeVar("Tensor")


def build_tensors(gradients: Sequence[Gradient], build: Callable[[Gradient], Tensor]) -> List[Optional[Tensor]]:
    """The tensors of a call, `build` making one of each gradient that exists and is not an earlier one again."""
    tensors: List[Optional[Tensor]] = []
    for gradient in gradients:
        if gradient.same_as is not None:
            tensors.append(tensors[gradient.same_as])
        else:
            tensors.append(None if gradient.array is None else build(gradient))
    return tensors


def lay_out(values: np.ndarray[Any, Any], layout: str) -> np.ndarray[Any, Any]:
    """A copy of `values` that lies in memory as `layout` says (see `Gradient.layout`).

    Raises
    ------
    Unsupported
        When the layout is not one of the contract's.
    """
    if layout == "contiguous":
        return values.copy(order="C")
    if layout == "transposed":
        return values.copy(order="F")
    if layout == "strided":
        # A 0-d array has no axis to stride along. Repeating leaves the values in the gaps too, so that code which
        # walks the whole buffer counts each element twice instead of failing by accident.
        return values.copy() if values.ndim == 0 else np.repeat(values, 2, axis=-1)[..., ::2]
    message = "no layout {!r} here: contiguous, strided or transposed".format(layout)
    raise Unsupported(message)
