"""Make cases of the order in an optimizer. The clip must come before the update.

An optimizer subject starts with parameters of zero, takes one step of plain gradient descent, and replies with the
negated parameters. These equal the learning rate times the clipped gradient. If a framework clips the update instead, a
rate other than 1 reveals it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..build import DTYPES, OPERATIONS, make_case, make_clipping_options, make_tensor
from ..model import Case, expect

__all__ = ["make_cases"]

#: The scale of the gradients below. It is so large that a small constant in a framework's formula, such as 1e-6 added
#: to the norm, is far below float32's rounding; and it is a power of two.
SCALE = 2.0**20

#: For two gradients of 3 and 4: a threshold, and the clipped gradients.
CLIPPED = {"value": (3.5, (3.0, 3.5)), "norm": (2.0, (2.0, 2.0)), "global-norm": (2.5, (1.5, 2.0))}


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        for operation in OPERATIONS:
            rule = f"{operation}.clip-before-update"
            tensors = [make_tensor([2.0, -4.0, 0.0, 4.0], dtype, (2, 2)), make_tensor([3.0, 4.0], dtype)]
            for name, rate in (("rate-one", 1.0), ("rate-quarter", 0.25)):
                options = {**make_clipping_options(operation, 2.0), "learning_rate": rate}
                yield make_case(rule, name, dtype, tensors, options, expect("values"), ["optimizer"])
        yield from _train(dtype) if dtype == "float32" else ()


def _train(dtype: str) -> Iterator[Case]:
    three, four = (make_tensor([value * SCALE], dtype) for value in (3.0, 4.0))
    for operation, (threshold, clipped) in CLIPPED.items():
        options = make_clipping_options(operation, threshold * SCALE)
        update = tuple((value * SCALE,) for value in clipped)
        needs = ["optimizer", "training"]
        decaying = {**options, "start": 4.0 * SCALE, "weight_decay": 0.25}
        expected = expect("update", clipped=update)
        yield make_case(f"{operation}.decay-after-clip", "two-tensors", dtype, [three, four], decaying, expected, needs)
        twice = {**options, "steps": 2}
        yield make_case(f"{operation}.each-step-clips", "two-steps", dtype, [three, four], twice, expected, needs)
        # Accumulate half of each gradient twice. For most operations, one half is below the threshold, and the sum is
        # above it.
        halves = [make_tensor([value * SCALE], dtype) for value in (1.5, 2.0)]
        summed = {**options, "accumulate": 2}
        yield make_case(f"{operation}.accumulated-then-clipped", "two-passes", dtype, halves, summed, expected, needs)
    apart = [three, replace(four, group=1)]
    options = make_clipping_options("global-norm", 2.5 * SCALE)
    together = expect("update", clipped=((1.5 * SCALE,), (2.0 * SCALE,)))
    rule = "global-norm.one-norm-over-groups"
    yield make_case(rule, "two-groups", dtype, apart, options, together, ["optimizer", "groups"])
    alone = expect("update", clipped=((2.5 * SCALE,), (2.5 * SCALE,)))
    rule = "global-norm.norm-per-group"
    yield make_case(rule, "two-groups", dtype, apart, options, alone, ["norm_per_group"])
