"""Plan linear layers whose parameters get the gradients of a call, for frameworks that clip in an optimizer.

An optimizer clips the gradients of parameters, and real parameters belong to layers. A matrix becomes the weight of a
linear layer, and a vector becomes the bias. Any other shape becomes a parameter by itself. The loss
`sum(parameter * G)` then gives the parameter exactly the gradient `G`. All parameters of one dtype are concatenated for
this sum, because a sum for each parameter makes Paddle's static programs very slow. A row-sparse gradient becomes the
weight of an embedding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Sequence

import numpy as np

from .contract import Array, Gradient

__all__ = ["JoinedGradients", "LinearLayer", "build_linear_layers", "join_by_dtype", "negate_values", "read_values"]


@dataclass(frozen=True)
class LinearLayer:
    """A linear layer and the indices of the gradients that its parameters get."""

    dtype: str
    in_features: int
    out_features: int
    weight: int | None = None
    bias: int | None = None
    #: The shape of a parameter that no linear layer holds. The parameter stands alone as the weight.
    shape: tuple[int, ...] | None = None


def build_linear_layers(gradients: Sequence[Gradient]) -> tuple[LinearLayer, ...]:
    """Return layers whose parameters get the gradients in order, the weight before the bias.

    A vector that follows a matrix of the same width becomes the bias beside that weight. A layer may have only one
    gradient: its other parameter takes no part in the loss. A gradient that is None becomes a weight outside the loss.
    A gradient that is neither a matrix nor a vector becomes a parameter of its own.
    """
    dtype = next((gradient.array.dtype for gradient in gradients if gradient.array), "float32")
    layers: list[LinearLayer] = []
    for number, gradient in enumerate(gradients):
        if gradient.array is None:
            layers.append(LinearLayer(dtype, 1, 1, weight=number))
            continue
        dtype, shape = gradient.array.dtype, gradient.array.shape
        if gradient.rows is not None:
            assert gradient.height is not None
            layers.append(LinearLayer(dtype, gradient.height, shape[1], weight=number))
        elif len(shape) == 2:
            layers.append(LinearLayer(dtype, shape[0], shape[1], weight=number))
        elif len(shape) == 1 and layers and _has_room_for(layers[-1], number, gradients, shape[0], dtype):
            layers[-1] = replace(layers[-1], bias=number)
        elif len(shape) == 1:
            layers.append(LinearLayer(dtype, 1, shape[0], bias=number))
        else:
            layers.append(LinearLayer(dtype, 0, 0, weight=number, shape=shape))
    return tuple(layers)


def _has_room_for(layer: LinearLayer, number: int, gradients: Sequence[Gradient], width: int, dtype: str) -> bool:
    before = gradients[number - 1]
    weight_just_before = layer.weight == number - 1 and before.array is not None and before.rows is None
    weight_just_before = weight_just_before and layer.shape is None
    return weight_just_before and layer.out_features == width and layer.dtype == dtype


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
