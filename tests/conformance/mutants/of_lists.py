"""Add mutants that are wrong about lists: what is excluded, missing, empty, or has another shape, dtype or layout."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .steps import Array, ClipFunction, Gradients
from .table import EVERY_DTYPE, add_mutant, refuse

# Excluded gradients.


def _match_flags_without_none(self: ClipFunction, grads: Gradients, need_clip: Sequence[bool]) -> list[int]:
    existing = [i for i, grad in enumerate(grads) if grad is not None]
    return [i for i, flag in zip(existing, need_clip, strict=False) if flag]


add_mutant(
    "drops missing gradients before it matches the flags, so that the flags shift",
    "*.excluded-untouched",
    causes=["excluded-changed", "not-clipped"],
    select_included=_match_flags_without_none,
)
add_mutant(
    "adds zero to excluded gradients, which changes the sign of -0.0",
    "*.excluded-untouched",
    causes=["excluded-changed"],
    answer=lambda self, grads, need_clip, results: [
        grad if grad is None or flag else grad + grad.dtype.type(0)
        for grad, flag in zip(results, need_clip, strict=True)
    ],
)
add_mutant(
    "clips all gradients if all of them are excluded",
    "*.all-excluded",
    causes=["excluded-changed"],
    select_included=lambda self, grads, need_clip: self.right.select_included(
        grads, need_clip if any(need_clip) else [True] * len(grads)
    ),
)
add_mutant(
    "counts excluded gradients in the norm",
    "global-norm.excluded-not-counted",
    causes=["excluded-counted"],
    select_counted=lambda self, grads, need_clip: self.right.select_counted(grads, [True] * len(grads)),
)
add_mutant(
    "reads flags that are numbers as the places of the gradients to clip",
    "*.flag-kinds",
    causes=["excluded-changed", "not-clipped"],
    select_included=lambda self, grads, need_clip: (
        sorted({flag for flag in need_clip if grads[flag] is not None})
        if all(type(flag) is int for flag in need_clip)
        else self.right.select_included(grads, need_clip)
    ),
)


def _stop_at(wrong: Callable[[Any, bool], bool]) -> Callable[..., Any]:
    """Return a step that includes only the gradients before the first one for which something holds."""

    def select_included(self: ClipFunction, grads: Gradients, need_clip: Sequence[bool]) -> list[int]:
        pairs = enumerate(zip(grads, need_clip, strict=True))
        end = next((i for i, (grad, flag) in pairs if wrong(grad, flag)), len(grads))
        return [i for i in self.right.select_included(grads, need_clip) if i < end]

    return select_included


add_mutant(
    "stops clipping at the first excluded gradient",
    "*.excluded-added",
    causes=["not-clipped"],
    select_included=_stop_at(lambda grad, flag: not flag),
)

# Missing gradients.

add_mutant(
    "stops clipping at the first missing gradient",
    "*.none-added",
    causes=["not-clipped"],
    select_included=_stop_at(lambda grad, flag: grad is None),
)
add_mutant(
    "returns zeros for a missing gradient",
    "*.none-stays-none",
    causes=["none-changed"],
    answer=lambda self, grads, need_clip, results: [np.zeros(1, "float32") if one is None else one for one in results],
)
add_mutant(
    "drops missing gradients from the result",
    "*.none-stays-none",
    causes=["count-changed"],
    answer=lambda self, grads, need_clip, results: [one for one in results if one is not None],
)
add_mutant(
    "counts each missing gradient as 1 in the norm",
    "global-norm.none-not-counted",
    compute_norms=lambda self, grads, counted, p: self.right.compute_norms(
        [np.ones(1) if grad is None else grad for grad in grads],
        [i for i, grad in enumerate(grads) if i in counted or grad is None],
        p,
    ),
)

# Lists and gradients without elements, and long lists.

add_mutant(
    "raises for an empty list",
    "*.empty-list",
    causes=["raises"],
    answer=lambda self, grads, need_clip, results: results if grads else refuse("no gradients"),
)
add_mutant(
    "raises for an empty tensor, because it has no largest element",
    "*.empty-tensor",
    causes=["raises"],
    hand_back=lambda self, grad, result: result if grad.size else np.max(grad),
)


def _take_largest_of_all(self: ClipFunction, grads: Gradients, counted: Sequence[int], p: float) -> Any:
    if p == math.inf:
        max(max(grads[i].ravel().tolist()) for i in counted)
    return self.right.compute_norms(grads, counted, p)


add_mutant(
    "raises for the infinity norm of no elements, because `max` gets an empty sequence",
    "norm.empty-tensor",
    "global-norm.empty-tensor",
    "norm.empty-list",
    "global-norm.empty-list",
    "norm.all-excluded",
    "global-norm.all-excluded",
    causes=["raises"],
    compute_norms=_take_largest_of_all,
)
add_mutant(
    "exceeds the recursion limit if there are many gradients",
    "*.many-tensors",
    causes=["raises"],
    answer=lambda self, grads, need_clip, results: (
        refuse("recursion", RecursionError) if len(grads) > sys.getrecursionlimit() // 2 else results
    ),
)
add_mutant(
    "turns lists of more than ten gradients around",
    "*.order-kept",
    causes=["order-changed"],
    answer=lambda self, grads, need_clip, results: results[::-1] if len(results) > 10 else results,
)

# Shapes, dtypes and layouts.

add_mutant(
    "does not clip zero-dimensional gradients",
    "*.zero-dimensional",
    causes=["not-clipped"],
    hand_back=lambda self, grad, result: result if grad.ndim else grad,
)
add_mutant(
    "does not clip gradients of ten or more elements",
    "*.zeros-added",
    causes=["not-clipped"],
    hand_back=lambda self, grad, result: result if grad.size < 10 else grad,
)
add_mutant(
    "flattens every gradient",
    "*.shape-kept",
    causes=["shape-changed"],
    hand_back=lambda self, grad, result: np.ravel(result),
)
add_mutant(
    "returns every gradient in float64",
    "*.dtype-kept",
    causes=["dtype-changed"],
    hand_back=lambda self, grad, result: np.asarray(result, "float64"),
)
add_mutant(
    "returns all gradients in the dtype of the first one",
    "*.mixed-dtypes",
    causes=["dtype-changed"],
    dtypes=EVERY_DTYPE,
    answer=lambda self, grads, need_clip, results: [
        None if one is None else np.asarray(one, next(grad.dtype for grad in grads if grad is not None))
        for one in results
    ],
)


def _remember_first(self: Any, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
    self.first = next((grad.dtype for grad in grads if grad is not None), np.dtype("float64"))
    norms: list[float] = self.right.compute_norms(grads, counted, p)
    return norms


@np.errstate(over="ignore")
def _clip_to_narrowed(self: Any, grad: Array, clip_norm: float, norm: float) -> Array:
    clipped: Array = self.right.clip(grad, float(self.first.type(clip_norm)), norm)
    return clipped


add_mutant(
    "rounds the threshold to the dtype of the first gradient",
    "norm.mixed-dtypes",
    "global-norm.mixed-dtypes",
    causes=["threshold-narrowed"],
    dtypes=EVERY_DTYPE,
    compute_norms=_remember_first,
    clip=_clip_to_narrowed,
)
add_mutant(
    "returns the norm in the dtype of the first gradient",
    "global-norm.mixed-dtypes",
    causes=["norm-out-of-range"],
    dtypes=EVERY_DTYPE,
    compute_norms=_remember_first,
    report_norm=np.errstate(over="ignore")(lambda self, total, clip_norm: self.first.type(total)),
)
add_mutant(
    "raises for float64, as if there were no kernel for it",
    "*.dtype-accepted",
    causes=["raises"],
    dtypes=EVERY_DTYPE,
    take=lambda self, grads: (
        refuse("no kernel for float64") if np.float64 in [grad.dtype for grad in grads] else self.right.take(grads)
    ),
)
add_mutant(
    "halves the result of a gradient with negative strides",
    "*.layout",
    causes=["multiple", "unexplained"],
    hand_back=lambda self, grad, result: result * grad.dtype.type(0.5 if min(grad.strides, default=0) < 0 else 1),
)
