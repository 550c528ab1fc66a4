"""Add mutants that need an ability: iterators, thresholds that are tensors, axes, compiling, training, processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .abilities import (
    InProcesses,
    PullsBack,
    Sharing,
    TakesAxes,
    TakesRows,
    TrainingByGroup,
    Trains,
    TrainsByGroup,
    UnusualCalls,
)
from .steps import Array
from .table import add_mutant

# The kind of an argument.

add_mutant(
    "calls `len` on the gradients, which fails for an iterator",
    "*.any-iterable",
    causes=["raises"],
    adapter=UnusualCalls,
    take=lambda self, grads: self.right.take(grads)[: len(grads)],
)
add_mutant(
    "treats each row of a single array as a gradient of its own",
    "*.single-tensor",
    causes=["shape-changed", "raises", "unexplained"],
    adapter=UnusualCalls,
    take=lambda self, grads: (
        [np.asarray(one) for one in np.atleast_1d(grads)] if isinstance(grads, np.ndarray) else grads
    ),
)
add_mutant(
    "reads a threshold that is a tensor as true or false, that is, as 1 or 0",
    "*.tensor-threshold",
    adapter=UnusualCalls,
    clip=lambda self, grad, clip_norm, norm: self.right.clip(
        grad, float(bool(clip_norm)) if isinstance(clip_norm, np.ndarray) else clip_norm, norm
    ),
)
add_mutant(
    "reads an upper bound that is a tensor as 10",
    "*.tensor-threshold",
    adapter=UnusualCalls,
    limit=lambda self, grad, low, high: self.right.limit(grad, low, 10.0 if isinstance(high, np.ndarray) else high),
)
add_mutant(
    "takes the norms over the first of the named axes only",
    "*.norm-over-axes",
    adapter=TakesAxes,
    choose_axes=lambda self, axes: axes[:1],
)
add_mutant(
    "ignores the row indices and fills the first rows of the tensor",
    "*.sparse-rows",
    adapter=TakesRows,
    fill=lambda self, full, values, rows: self.right.fill(full, values, range(len(rows))),
)
add_mutant(
    "keeps only the last of the rows that are stored twice",
    "*.sparse-duplicate-rows",
    adapter=TakesRows,
    fill=lambda self, full, values, rows: full.__setitem__(rows, values),
)

# The compiled form.

add_mutant(
    "replaces NaN by 0 when compiled, as fast-math flags allow",
    "*.compiled-agrees",
    causes=["nonfinite-silent", "value-nan-lost", "unexplained"],
    adapter=UnusualCalls,
    hand_back=lambda self, grad, result: (
        np.nan_to_num(result, posinf=math.inf, neginf=-math.inf) if self.is_compiled else result
    ),
)


def _use_first_threshold(self: Any, grad: Array, clip_norm: float, norm: float) -> Any:
    traced = vars(self).setdefault("traced", clip_norm) if self.is_compiled else clip_norm
    return self.right.clip(grad, traced, norm)


add_mutant(
    "uses the first threshold for all later calls when compiled",
    "*.compiled-agrees",
    adapter=UnusualCalls,
    clip=_use_first_threshold,
)

# Training.

add_mutant(
    "clips the gradients after it has multiplied them by the learning rate",
    "*.clip-before-update",
    adapter=Trains,
    clip_step=lambda self, step, grads, decay, groups, clip: grads,
    apply_rate=lambda self, rate, update, clip: clip([rate * one for one in update]),
)
add_mutant(
    "adds the weight decay to the gradients before it clips them",
    "*.decay-after-clip",
    adapter=Trains,
    clip_step=lambda self, step, grads, decay, groups, clip: clip(
        [one + more for one, more in zip(grads, decay, strict=True)]
    ),
)
add_mutant(
    "clips in the first step only",
    "*.each-step-clips",
    causes=["not-clipped", "unexplained"],
    adapter=Trains,
    clip_step=lambda self, step, grads, decay, groups, clip: (
        grads if step else self.right.clip_step(step, grads, decay, groups, clip)
    ),
)
add_mutant(
    "clips the gradients of each backward pass, and not their sum",
    "*.accumulated-then-clipped",
    adapter=Trains,
    add_up=lambda self, grads, passes, clip: [passes * one for one in clip(grads)],
    clip_step=lambda self, step, grads, decay, groups, clip: grads,
)


add_mutant(
    "clips the gradients of each group by their own global norm",
    "*.one-norm-over-groups",
    causes=["norm-of-group"],
    adapter=Trains,
    clip_step=TrainingByGroup.clip_step,
)
add_mutant(
    "clips all groups by one global norm, although the documentation gives each its own",
    "*.norm-per-group",
    adapter=TrainsByGroup,
    clip_step=lambda self, step, grads, decay, groups, clip: clip(grads),
)

# Derivatives.

add_mutant(
    "takes a quarter of the derivative from above at the threshold",
    "*.derivative",
    adapter=PullsBack,
    pull_back=lambda self, grads, cotangents, threshold: (
        setattr(self, "share", 0.25) or self.right.pull_back(grads, cotangents, threshold)
    ),
)
add_mutant(
    "divides zero by zero in the derivative at a norm of zero",
    "*norm.derivative",
    causes=["derivative-nan"],
    adapter=PullsBack,
    pull_back_together=lambda self, grads, cotangents, threshold: (
        self.right.pull_back_together(grads, cotangents, threshold)
        if any(one.any() for one in grads)
        else [np.full_like(one, np.nan) for one in cotangents]
    ),
)
add_mutant(
    "returns derivatives that have lost ten bits",
    "*.derivative",
    adapter=PullsBack,
    pull_back=lambda self, grads, cotangents, threshold: [
        one * one.dtype.type(1 + 2.0**10 * np.finfo(one.dtype).eps)
        for one in self.right.pull_back(grads, cotangents, threshold)
    ],
)

# Gradients that several processes share.

add_mutant(
    "leaves the copies of all processes but the first one as they are",
    "*.shards-as-whole",
    causes=["processes-differ"],
    adapter=InProcesses,
    finish_part=lambda self, rank, axis, before, result: before if rank and axis is None else result,
)
add_mutant(
    "multiplies the threshold by the number of processes, as if each process clipped its own addend",
    "*.shards-as-whole",
    causes=["addends-clipped"],
    adapter=InProcesses,
    share_threshold=lambda self, threshold, processes: threshold * processes,
)
add_mutant(
    "takes a gradient that is split along another axis than the first for a copied one",
    "*norm.shards-as-whole",
    adapter=InProcesses,
    gather=lambda self, rank, parts, place, axis: self.right.gather(rank, parts, place, None if axis else axis),
)


@np.errstate(all="ignore")
def _send_squares(self: Sharing, tensors: Sequence[Array], p: float) -> Any:
    if p == math.inf or not tensors:
        return self.right.reduce(tensors, p)
    powers = [np.float32(self.right.reduce([one], p)) ** np.float32(p) for one in tensors]
    return float(np.float32(sum(powers)) ** np.float32(1 / p))


add_mutant(
    "sends the squares of the norms of the parts in the dtype of the gradients",
    "*norm.shards-as-whole",
    causes=["squares-overflow"],
    adapter=InProcesses,
    reduce=_send_squares,
)
