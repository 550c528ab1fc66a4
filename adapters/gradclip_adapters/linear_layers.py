"""How the gradients of a call are laid onto linear layers, for frameworks that clip in an optimizer.

An optimizer clips the gradients of parameters, and real parameters belong to layers: a matrix becomes the weight of a
linear layer, a vector the bias. A loss of `sum(parameter * G)` then has exactly `G` as the parameter's gradient. The
parameters are laid end to end for it, because one sum for each of them makes Paddle's static programs very slow. A
gradient that holds some rows only is that of an embedding, whose weight has the shape of a layer without a bias.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .contract import Gradient, Unsupported

__all__ = ["EndToEnd", "LinearLayer", "end_to_end", "linear_layers"]


@dataclass(frozen=True)
class LinearLayer:
    """One linear layer, and the numbers of the gradients that its parameters shall have."""

    dtype: str
    in_features: int
    out_features: int
    weight: Optional[int] = None
    bias: Optional[int] = None


def linear_layers(gradients: Sequence[Gradient]) -> Tuple[LinearLayer, ...]:
    """The layers whose parameters, layer by layer and weight before bias, are the gradients in their order.

    A vector that follows a matrix of its width is the bias beside that weight. The other parameter of a layer that
    got one gradient only takes no part in the loss, nor does the weight that stands for a gradient that is None.

    Raises
    ------
    Unsupported
        When a gradient is neither a matrix nor a vector.
    """
    dtype = next((gradient.array.dtype for gradient in gradients if gradient.array), "float32")
    layers: List[LinearLayer] = []
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
            message = "a linear layer holds 2-D weights and 1-D biases, not shape {}".format(shape)
            raise Unsupported(message)
    return tuple(layers)


def _has_room_for(layer: LinearLayer, number: int, gradients: Sequence[Gradient], width: int, dtype: str) -> bool:
    before = gradients[number - 1]
    weight_just_before = layer.weight == number - 1 and before.array is not None and before.rows is None
    return weight_just_before and layer.out_features == width and layer.dtype == dtype


@dataclass(frozen=True)
class EndToEnd:
    """All gradients of one dtype: their numbers, and their values one after another."""

    dtype: str
    numbers: Tuple[int, ...]
    values: np.ndarray[Any, Any]


def end_to_end(gradients: Sequence[Gradient]) -> Tuple[EndToEnd, ...]:
    """The gradients that exist and are dense, joined dtype by dtype."""
    found: Dict[str, Dict[int, np.ndarray[Any, Any]]] = {}
    for number, gradient in enumerate(gradients):
        if gradient.array is not None and gradient.rows is None:
            found.setdefault(gradient.array.dtype, {})[number] = gradient.array.numpy().ravel()
    return tuple(EndToEnd(dtype, tuple(parts), np.concatenate(list(parts.values()))) for dtype, parts in found.items())
