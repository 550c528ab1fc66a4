"""Make cases of the order in an optimizer. The clip must come before the update.

An entry point of an optimizer starts with parameters of zero, takes one step of plain gradient descent, and replies
with the negated parameters. These equal the learning rate times the clipped gradient. If a framework clips the update
instead, a rate other than 1 reveals it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..build import DTYPES, Maker, list_makers
from ..model import Case, Expect, expect

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
        for make in list_makers(dtype):
            tensors = [make.tensor([2.0, -4.0, 0.0, 4.0], (2, 2)), make.tensor([3.0, 4.0])]
            yield from make.table(
                "clip-before-update",
                ("rate-one", tensors, 2.0, {"learning_rate": 1.0}),
                ("rate-quarter", tensors, 2.0, {"learning_rate": 0.25}),
                needs=["optimizer"],
            )
    for make in list_makers("float32"):
        yield from _train(make)
        if make.operation.is_global:
            yield from _group(make)


def _train(make: Maker) -> Iterator[Case]:
    needs, prefix = ["optimizer", "training"], make.operation.prefix
    tensors = make.tensors([3.0 * SCALE], [4.0 * SCALE])
    threshold, clipped = CLIPPED[prefix]
    limit, update = threshold * SCALE, _expect_update(*clipped)
    decay = {"start": 4.0 * SCALE, "weight_decay": 0.25}
    yield make.case("decay-after-clip", "two-tensors", tensors, limit, update, needs, **decay)
    yield make.case("each-step-clips", "two-steps", tensors, limit, update, needs, steps=2)
    # Accumulate half of each gradient twice. For most operations, one half is below the threshold, and the sum is above
    # it.
    halves, rule = make.tensors([1.5 * SCALE], [2.0 * SCALE]), "accumulated-then-clipped"
    yield make.case(rule, "two-passes", halves, limit, update, needs, accumulate=2)
    threshold, clipped = CLIPPED_OF_THREE[prefix]
    update = _expect_update(*clipped)
    yield make.case(rule, "three-passes", tensors, threshold * SCALE, update, needs, accumulate=3)
    update = _expect_update(9.0, 12.0)
    yield make.case(rule, "not-clipped", tensors, ABOVE_THREE * SCALE, update, needs, accumulate=3)


def _expect_update(*clipped: float) -> Expect:
    return expect("update", clipped=tuple((value * SCALE,) for value in clipped))


def _group(make: Maker) -> Iterator[Case]:
    three, four, twelve = make.tensors([3.0 * SCALE], [4.0 * SCALE], [12.0 * SCALE])
    one_each = [three, replace(four, group=1)]
    # The first group has the norm 5, and the whole list has the norm 13.
    two_and_one = [three, four, replace(twelve, group=1)]
    for rule, needs, name, tensors, threshold, clipped in (
        ("one-norm-over-groups", ["optimizer", "groups"], "two-groups", one_each, 2.5, (1.5, 2.0)),
        ("one-norm-over-groups", ["optimizer", "groups"], "two-tensors-in-a-group", two_and_one, 6.5, (1.5, 2.0, 6.0)),
        ("norm-per-group", ["norm_per_group"], "two-groups", one_each, 2.5, (2.5, 2.5)),
        ("norm-per-group", ["norm_per_group"], "two-tensors-in-a-group", two_and_one, 2.5, (1.5, 2.0, 2.5)),
    ):
        yield make.case(rule, name, tensors, threshold * SCALE, _expect_update(*clipped), needs)
