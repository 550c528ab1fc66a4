"""Make cases of the order in an optimizer. The clip must come before the update.

An optimizer subject starts with parameters of zero, takes one step of plain gradient descent, and replies with the
negated parameters. These equal the learning rate times the clipped gradient. If a framework clips the update instead, a
rate other than 1 reveals it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gradclip_adapters.contract import Gradient

from ..build import DTYPES, OPERATIONS, make_case, make_clipping_options, make_tensor
from ..model import Case, expect

__all__ = ["make_cases"]

#: The scale of the gradients below. It is so large that a small constant in a framework's formula, such as 1e-6 added
#: to the norm, is far below float32's rounding; and it is a power of two.
SCALE = 2.0**20

#: For two gradients of 3 and 4: a threshold, and the clipped gradients.
CLIPPED = {"value": (3.5, (3.0, 3.5)), "norm": (2.0, (2.0, 2.0)), "global-norm": (2.5, (1.5, 2.0))}

#: For the sum of three such passes, 9 and 12: the same. Each pass alone is below these thresholds.
CLIPPED_OF_THREE = {"value": (10.5, (9.0, 10.5)), "norm": (10.0, (9.0, 10.0)), "global-norm": (7.5, (4.5, 6.0))}
#: A threshold above the sum. The result shows every pass that is left out.
ABOVE_THREE = 16.0


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
        for name, at, sums in (
            ("three-passes", *CLIPPED_OF_THREE[operation]),
            ("not-clipped", ABOVE_THREE, (9.0, 12.0)),
        ):
            summed = {**make_clipping_options(operation, at * SCALE), "accumulate": 3}
            expected = expect("update", clipped=tuple((value * SCALE,) for value in sums))
            rule = f"{operation}.accumulated-then-clipped"
            yield make_case(rule, name, dtype, [three, four], summed, expected, needs)
    yield from _group(three, four)


def _group(three: Gradient, four: Gradient) -> Iterator[Case]:
    """Yield cases with two groups of parameters."""
    one_each = [three, replace(four, group=1)]
    # The first group has the norm 5, and the whole list has the norm 13.
    two_and_one = [three, four, replace(make_tensor([12.0 * SCALE], "float32"), group=1)]
    shared, apart = ("one-norm-over-groups", ["optimizer", "groups"]), ("norm-per-group", ["norm_per_group"])
    for (rule, needs), name, tensors, threshold, clipped in (
        (shared, "two-groups", one_each, 2.5, (1.5, 2.0)),
        (shared, "two-tensors-in-a-group", two_and_one, 6.5, (1.5, 2.0, 6.0)),
        (apart, "two-groups", one_each, 2.5, (2.5, 2.5)),
        (apart, "two-tensors-in-a-group", two_and_one, 2.5, (1.5, 2.0, 2.5)),
    ):
        options = make_clipping_options("global-norm", threshold * SCALE)
        expected = expect("update", clipped=tuple((value * SCALE,) for value in clipped))
        yield make_case(f"global-norm.{rule}", name, "float32", tensors, options, expected, needs)
