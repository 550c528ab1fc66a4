"""Join the gradients of a call, and read them off a step, for frameworks that clip in an optimizer.

An optimizer clips the gradients of parameters. The loss `sum(parameter * G)` gives a parameter exactly the gradient
`G`. All parameters of one dtype are concatenated for this sum, because a sum for each parameter makes Paddle's static
programs very slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np

from .contract import Array, Gradient


@dataclass(frozen=True)
class JoinedGradients:
    """All dense gradients of one dtype: their indices, and their values concatenated."""

    dtype: str
    numbers: tuple[int, ...]
    values: np.ndarray[Any, Any]


def join_by_dtype(gradients: Sequence[Gradient]) -> tuple[JoinedGradients, ...]:
    """Concatenate the dense gradients of each dtype. Leave out those that are None."""
    found: dict[str, dict[int, np.ndarray[Any, Any]]] = {}
    for number, gradient in enumerate(gradients):
        if gradient.array is not None and gradient.rows is None:
            found.setdefault(gradient.array.dtype, {})[number] = read_values(gradient.array).ravel()
    return tuple(
        JoinedGradients(dtype, tuple(parts), np.concatenate(list(parts.values()))) for dtype, parts in found.items()
    )


def read_values(array: Array) -> np.ndarray[Any, Any]:
    """Return the elements as Paddle takes them: bfloat16 as its bits in unsigned 16-bit integers."""
    return array.bits() if array.dtype == "bfloat16" else array.numpy()


def negate_values(values: Sequence[np.ndarray[Any, Any]], gradients: Sequence[Gradient]) -> tuple[Array | None, ...]:
    """Return the negated parameters after a step, or None for one that had no gradient and stayed zero."""
    results: list[Array | None] = []
    for value, gradient in zip(values, gradients):
        stayed = gradient.array is None and not value.any()
        # Subtracting from -0.0 keeps the sign of a NaN, which negating would flip.
        results.append(None if stayed else Array.of(np.subtract(-0.0, value, dtype=value.dtype)))
    return tuple(results)
