"""Add mutants of the clip by value: wrong bounds, and wrong elements within them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .steps import Array, ByValue
from .table import add_mutant, refuse

# The bounds.

add_mutant(
    "has no lower bound if min is not passed",
    "value.min-defaults-to-minus-max",
    causes=["value-one-sided"],
    fill_bounds=lambda self, low, high: (-math.inf if low is None else low, high),
)
add_mutant(
    "treats a min of 0 as not passed",
    "value.bounds",
    causes=["value-bounds-mirrored", "value-one-sided", "unexplained"],
    fill_bounds=lambda self, low, high: (low or -high, high),
)
add_mutant(
    "truncates the bounds to integers",
    "value.power-of-two-scaling",
    causes=["threshold-rounded"],
    limit=lambda self, grad, low, high: self.right.limit(grad, np.trunc(low), np.trunc(high)),
)


@np.errstate(over="ignore")
def _round_bounds(self: ByValue, grad: Array, low: float, high: float) -> Any:
    return self.right.limit(grad, float(np.float16(low)), float(np.float16(high)))


add_mutant(
    "rounds the bounds to float16",
    "value.bounds-rounded",
    causes=["value-bounds-rounded"],
    limit=_round_bounds,
)
add_mutant(
    "refuses a max of 0",
    "value.zero-threshold",
    causes=["raises"],
    fill_bounds=lambda self, low, high: self.right.fill_bounds(low, high or refuse("max must be positive")),
)
add_mutant(
    "treats a bound of -0.0 as no bound",
    "value.minus-zero-threshold",
    causes=["not-clipped", "value-one-sided"],
    limit=lambda self, grad, low, high: grad if str(high) == "-0.0" else self.right.limit(grad, low, high),
)
add_mutant(
    "does not clip if a bound is infinite",
    "value.infinite-bounds",
    causes=["not-clipped", "value-one-sided"],
    limit=lambda self, grad, low, high: (
        grad if math.isinf(low) or math.isinf(high) else self.right.limit(grad, low, high)
    ),
)

# The gradients and their elements.

add_mutant(
    "clips only the first tensor",
    "value.tensor-order",
    causes=["not-clipped"],
    select_included=lambda self, grads, need_clip: self.right.select_included(grads, need_clip)[:1],
)
add_mutant(
    "does not clip gradients of fewer than four elements",
    "value.splitting-and-joining",
    causes=["not-clipped"],
    hand_back=lambda self, grad, result: result if grad.size > 3 else grad,
)
add_mutant(
    "clips in float16",
    "value.inside-unchanged",
    causes=["narrower-arithmetic"],
    limit=lambda self, grad, low, high: self.right.limit(grad.astype(np.float16), low, high).astype(grad.dtype),
)
add_mutant(
    "does not clip infinity",
    "value.infinity-clipped",
    causes=["not-clipped"],
    hand_back=lambda self, grad, result: np.where(np.isinf(grad), grad, result),
)
add_mutant(
    "replaces NaN by 0 in gradients of 201 to 1,999 elements",
    "value.nan-stays",
    causes=["value-nan-lost"],
    dtypes=["float16", "float64"],
    hand_back=lambda self, grad, result: np.nan_to_num(result) if 200 < grad.size < 2000 else result,
)
