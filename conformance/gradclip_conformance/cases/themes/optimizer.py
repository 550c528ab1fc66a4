"""Make cases of the order in an optimizer. The clip must come before the update.

An entry point of an optimizer starts with parameters of zero, takes one step of plain gradient descent, and replies
with the negated parameters. These equal the learning rate times the clipped gradient. If a framework clips the update
instead, a rate other than 1 reveals it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gradclip_adapters.operations import ALL, GRADIENT, NOTHING

from ..build import DTYPES, Maker, list_makers
from ..model import Case, Expect, expect

#: The scale of the gradients below. It is so large that a small constant in a framework's formula, such as 1e-6 added
#: to the norm, is far below float32's rounding; and it is a power of two.
SCALE = 2.0**20

#: For each way in which elements form groups: a threshold and the clipped gradients, of two gradients of 3 and 4; and
#: the same of the sum of three such passes, 9 and 12, of which each alone is below the second threshold.
CLIPPED = {
    NOTHING: (3.5, (3.0, 3.5), 10.5, (9.0, 10.5)),
    GRADIENT: (2.0, (2.0, 2.0), 10.0, (9.0, 10.0)),
    ALL: (2.5, (1.5, 2.0), 7.5, (4.5, 6.0)),
}


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
    tensors, halves = make.tensors([3.0 * SCALE], [4.0 * SCALE]), make.tensors([1.5 * SCALE], [2.0 * SCALE])
    threshold, clipped, threshold_of_three, clipped_of_three = CLIPPED[make.operation.group]
    limit, update, update_of_three = threshold * SCALE, _expect_update(*clipped), _expect_update(*clipped_of_three)
    decay, rule = {"start": 4.0 * SCALE, "weight_decay": 0.25}, "accumulated-then-clipped"
    yield from make.rows(
        ("decay-after-clip/two-tensors", tensors, limit, update, decay),
        ("each-step-clips/two-steps", tensors, limit, update, {"steps": 2}),
        # Accumulate half of each gradient twice. For most operations, one half is below the threshold, and the sum is
        # above it.
        (f"{rule}/two-passes", halves, limit, update, {"accumulate": 2}),
        (f"{rule}/three-passes", tensors, threshold_of_three * SCALE, update_of_three, {"accumulate": 3}),
        # The sum is below this threshold, so the result shows every pass that is left out.
        (f"{rule}/not-clipped", tensors, 16.0 * SCALE, _expect_update(9.0, 12.0), {"accumulate": 3}),
        needs=["optimizer", "training"],
    )


def _expect_update(*clipped: float) -> Expect:
    return expect("update", clipped=tuple((value * SCALE,) for value in clipped))


def _group(make: Maker) -> Iterator[Case]:
    three, four, twelve = make.tensors([3.0 * SCALE], [4.0 * SCALE], [12.0 * SCALE])
    one_each = [three, replace(four, group=1)]
    # The first group has the norm 5, and the whole list has the norm 13.
    two_and_one = [three, four, replace(twelve, group=1)]
    yield from make.table(
        "one-norm-over-groups",
        ("two-groups", one_each, 2.5 * SCALE, _expect_update(1.5, 2.0)),
        ("two-tensors-in-a-group", two_and_one, 6.5 * SCALE, _expect_update(1.5, 2.0, 6.0)),
        needs=["optimizer", "groups"],
    )
    yield from make.table(
        "norm-per-group",
        ("two-groups", one_each, 2.5 * SCALE, _expect_update(2.5, 2.5)),
        ("two-tensors-in-a-group", two_and_one, 2.5 * SCALE, _expect_update(1.5, 2.0, 2.5)),
        needs=["norm_per_group"],
    )
