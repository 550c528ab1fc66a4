"""Make the cases of clips per example.

Each example holds the gradients of some tensors. Each element is zero in all examples but one, or several examples of
the same norm have it (see `stacking`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gradclip_adapters.contract import Gradient

from ...oracle.formats import FORMATS, next_down, next_up
from ..build import (
    DTYPES,
    Maker,
    keep_all,
    list_digits,
    list_makers,
    make_very_long,
    number_groups,
    round_to_tensor,
)
from ..model import Case, expect
from ..stacking import NO_EXAMPLE
from .nonfinite import NOT_SILENT, NOT_SILENT_NUMBERS, UNCHANGED
from .range import HUGE, LEAVES_RANGE, TINY, WIDE, list_largest
from .structure import DTYPE, SHAPE


def make_cases() -> Iterator[Case]:
    """Yield all cases of this operation."""
    for dtype in DTYPES:
        for make in list_makers(dtype, ["per-example"]):
            yield from _ask_formula(make)
            yield from _ask_several_examples(make)
            yield from _ask_layers(make)
            yield from _ask_zeros(make)
            yield from _ask_nonfinite(make)
            yield from _ask_range(make)
            yield from _ask_forms(make)
            yield from _ask_effects(make)


def _ask_formula(make: Maker) -> Iterator[Case]:
    """Clip a single example."""
    dtype, triangle, digits = make.dtype, make.tensor([3.0, -4.0]), make.tensor(list_digits(make.dtype))
    small = 2.0**-8 if dtype == "float16" else 2.0**-18
    little = make.tensor([3 * small, -4 * small])
    yield from make.table(
        "scaled-above",
        ("three-four-five", triangle, 1.0),
        ("by-half", triangle, 2.5),
        ("small", little, 2.5 * small),
        ("matrix", make.tensor([2.0, -4.0, 4.0, 0.0], (2, 2)), 2.0),
        # The parts along each axis differ in their norms, so a norm of parts is wrong.
        ("four-axes", make.tensor([2.0, -4.0, 4.0, *[0.0] * 5], (2, 2, 1, 2)), 3.0),
        ("next-number", triangle, next_down(5.0, dtype)),
    )
    if dtype in ("float32", "float64"):
        long = round_to_tensor(np.tile([1.0, -2.0, 2.0], 3367), dtype)
        yield make.case("scaled-above", "ten-thousand-elements", long, 1.0)
        if dtype == "float32":
            yield make.case("scaled-above", "beyond-a-million", make_very_long(), 1.0)
    yield from make.table(
        "identity-below",
        ("three-four-five", triangle, 8.0),
        ("small", little, 8 * small),
        ("matrix", make.tensor([-0.5, 1.0, -0.75, 0.0], (2, 2)), 4.0),
        ("every-digit", digits, 8.0),
        ("next-number", triangle, next_up(5.0, dtype)),
        *((f"threshold-of-digits-{place}", digits, 8 * abs(list_digits(dtype)[place])) for place in (2, 11, 20)),
        expectation=keep_all,
    )
    yield from make.table(
        "at-threshold", ("three-four-five", triangle, 5.0), ("small", little, 5 * small), expectation=keep_all
    )


def _ask_several_examples(make: Maker) -> Iterator[Case]:
    """Clip several examples, some of them above the threshold, and examples of several tensors."""
    above, below, far = make.tensors([3.0, -4.0, 0.0, 0.0], [0.0, 0.0, 0.5, 0.25], [0.0, 0.0, -12.0, 16.0])
    # As many examples as elements in one of them.
    four = [make.tensor([8.0 * (place == number) for place in range(4)]) for number in range(4)]
    three = [make.tensor([4.0 * (place == number) for place in range(3)]) for number in range(3)]
    six = [make.tensor([4.0 * (place == number) for place in range(6)]) for number in range(6)]
    pair = make.tensor([3.0, -4.0])
    # Each has the norm 5, so their shares of the common element are equal.
    sharing = [make.tensor([3.0, *(-4.0 * (place == number) for place in range(4))]) for number in range(4)]
    blocks = [make.tensor(values, (2, 2)) for values in ([0.0, 0.0, 0.0, 2.0], [2.0, 0.0, 0.0, 0.0])]
    apart, other = make.tensors([3.0], [4.0, 0.0]), make.tensors([0.0], [0.0, -0.5])
    yield from make.table(
        "each-example-alone",
        ("above-and-below", number_groups([above], [below]), 1.0),
        ("both-above", number_groups([above], [far]), 2.5),
        ("as-many-as-elements", number_groups(*([one] for one in four)), 2.0),
        ("only-together-above", number_groups([above], [below]), 5.0, keep_all),
    )
    nothing = [replace(make.tensor([0.0] * size), group=NO_EXAMPLE) for size in (3, 2)]
    yield from make.table(
        "sum-of-examples",
        ("three-clipped", number_groups(*([one] for one in three)), 1.0),
        ("matrices", number_groups(*([one] for one in blocks)), 1.0),
        ("six-clipped", number_groups(*([one] for one in six)), 1.0),
        # The sum of equal examples is their multiple, and is above the threshold again.
        ("two-equal", number_groups([pair], [pair]), 2.5),
        ("four-equal", number_groups(*([pair, make.tensor([8.0])] for _ in range(4))), 0.5),
        ("two-equal-beside-another", number_groups([above], [far], [above]), 2.5),
        ("two-sharing-an-element", number_groups(*([one] for one in sharing[:2])), 2.5),
        ("four-sharing-an-element", number_groups(*([one] for one in sharing)), 1.25),
        # A function may refuse such a batch. If it returns sums, they are zeros.
        ("no-example", nothing, 1.0, expect("values", may_refuse=True)),
        ("three-kept", number_groups(*([one] for one in three)), 8.0, keep_all),
    )
    yield from make.table(
        "one-norm-over-all",
        ("two-tensors", apart, 1.0),
        ("each-below-alone", apart, 4.5),
        ("two-examples", number_groups(apart, other), 1.0),
        ("below", apart, 6.0, keep_all),
    )
    if make.dtype == "float32":
        yield from _ask_many(make)


def _ask_many(make: Maker) -> Iterator[Case]:
    """Clip many or long examples, and those of many tensors. Rows of the sampler have at most 17, 1,023 and 31."""
    # The norms are 30 and 30 / 16.
    hundred = [
        make.tensors(*[[0.0] * 3 * number + [x * factor for x in (1.0, -2.0, 2.0)] + [0.0] * 3 * (1 - number)] * 100)
        for number, factor in enumerate((1.0, 1 / 16))
    ]
    forty = [[make.tensor([8.0 * (place == number) for place in range(40)])] for number in range(40)]
    # The norms are 71 times the factors.
    blocks = np.zeros((3, 3, 1701))
    for number, factor in enumerate((1.0, 4.0, 0.25)):
        blocks[number, number] = factor * np.tile([1.0, -2.0, 2.0], 567)
    long = [[round_to_tensor(block.ravel(), make.dtype)] for block in blocks]
    yield from make.rows(
        ("one-norm-over-all/hundred-tensors", number_groups(*hundred), 15.0),
        ("sum-of-examples/forty-clipped", number_groups(*forty), 2.0),
        ("each-example-alone/long", number_groups(*long), 64.0),
    )


def _ask_layers(make: Maker) -> Iterator[Case]:
    """Clip each gradient of an example to its share of the threshold."""
    for rule, layers, shapes, limits, above, one, first, second, more in (
        # Each of four layers has half of the threshold.
        (
            "layers-equal",
            "equal",
            [(2,), (3,), (1,), (2, 2)],
            (2.0, 2.0, 2.0, 2.0),
            (5.0, 0.5, 6.0, 2.0),
            (10.0, 0.5, 0.25, 1.0),
            (4.0, 0.5, 6.0, 1.0),
            (1.0, 8.0, 0.0, 4.0),
            (("two-layers", [(2,), (4,)], 2.0), ("three-layers", [(2,), (1,), (2, 3)], 3.0)),
        ),
        # 9, 4, 1, 1 and 1 elements have 3/4, 1/2, 1/4, 1/4 and 1/4 of the threshold.
        (
            "layers-by-size",
            "by size",
            [(3, 3), (4,), (1,), (1,), ()],
            (3.0, 2.0, 1.0, 1.0, 1.0),
            (5.0, 0.5, 6.0, 0.25, 1.0),
            (2.0, 10.0, 0.5, 1.0, 0.25),
            (4.0, 0.5, 6.0, 0.0, 1.0),
            (1.0, 8.0, 0.0, 2.0, 0.0),
            (("two-to-four", [(2,), (4,)], 2.0), ("nine-to-sixteen", [(3, 3), (16,)], 5.0)),
        ),
    ):
        option = {"layers": layers}
        both = number_groups(_make_layers(make, shapes, first), _make_layers(make, shapes, second, last=True))
        six, norms = [(2,), (1,), (3,), (1,), (2, 2), (1,)], (5.0, 10.0, 4.0, 0.5, 1.0, 8.0)
        yield from make.table(
            rule,
            ("above-and-below", _make_layers(make, shapes, above), 4.0, option),
            # The norm over all layers is below the threshold.
            ("one-layer-above", _make_layers(make, shapes, one), 16.0, option),
            ("at-threshold", _make_layers(make, shapes, limits), 4.0, keep_all, option),
            ("below", _make_layers(make, shapes, above), 64.0, keep_all, option),
            ("two-examples", both, 4.0, option),
            # Not all of these shares are exact.
            *(
                (name, _make_layers(make, others, norms[: len(others)]), threshold, option)
                for name, others, threshold in (("one-layer", [(2,)], 2.5), ("six-layers", six, 4.0), *more)
            ),
        )


def _make_layers(
    make: Maker, shapes: Sequence[tuple[int, ...]], norms: Sequence[float], *, last: bool = False
) -> list[Gradient]:
    """Return a layer of each shape and norm. Its first elements are not zero, or only its last ones."""
    layers = []
    for shape, norm in zip(shapes, norms, strict=True):
        size = math.prod(shape)
        some = [0.6 * norm, -0.8 * norm] if norm % 5 == 0 and size > 1 else [norm]
        rest = [0.0] * (size - len(some))
        layers.append(make.tensor([*rest, *some] if last else [*some, *rest], shape))
    return layers


def _ask_zeros(make: Maker) -> Iterator[Case]:
    zeros, triangle = make.tensors([0.0, 0.0], [3.0, -4.0])
    yield from make.rows(
        ("zero-gradient/alone", zeros, 1.0),
        ("zero-gradient/beside-another-example", number_groups([zeros], [triangle]), 1.0),
        ("zero-gradient-zero-threshold/alone", zeros, 0.0),
        ("zero-gradient-zero-threshold/beside-another-example", number_groups([triangle], [zeros]), 0.0),
        ("zero-threshold/one-example", triangle, 0.0),
    )


def _ask_nonfinite(make: Maker) -> Iterator[Case]:
    for rule, name, value in NOT_SILENT_NUMBERS:
        some, two = make.tensor([3.0, value, -1.0]), make.tensors([3.0, 4.0], [value])
        yield from make.rows(
            (f"{rule}/{name}", some, 1.0),
            (f"{rule}/{name}-in-another-tensor", two, 1.0),
            (f"infinite-threshold-nonfinite/{name}", some, math.inf, UNCHANGED),
            (f"{rule}/{name}-in-a-layer-equal", two, 1.0, {"layers": "equal"}),
            (f"{rule}/{name}-in-a-layer-by-size", two, 1.0, {"layers": "by size"}),
            expectation=NOT_SILENT,
        )
    yield from make.rows(
        ("nan-not-silent/threshold-zero", make.tensor([3.0, math.nan], (1, 2)), 0.0, NOT_SILENT),
        ("infinite-threshold/finite", make.tensor([3.0, -4.0]), math.inf, keep_all),
    )


def _ask_range(make: Maker) -> Iterator[Case]:
    digits = abs(list_digits(make.dtype)[7]) * 8
    for rule, units in (("overflow-of-squares", HUGE), ("underflow-of-squares", TINY)):
        unit = units[make.dtype]
        triangle = make.tensor([3 * unit, -4 * unit])
        yield from make.table(
            rule,
            ("three-four-five", triangle, unit, WIDE),
            ("below", triangle, digits * unit, keep_all),
            ("layers", [triangle, make.tensor([unit])], unit, WIDE, {"layers": "equal"}),
        )
    four, quarter = list_largest(make.dtype), float(FORMATS[make.dtype].largest) / 4
    yield make.case("norm-beyond-range", "twice-the-largest", make.tensor(four), quarter, LEAVES_RANGE)
    if FORMATS[make.dtype].precision > 11:
        return
    # A running sum of ones stops at 2048 with 11 bits, and at 256 with 8 bits. The sum of 256s leaves float16's range.
    for name, value in (("running-sum", 1.0), ("sum-out-of-range", 16.0)):
        constant = round_to_tensor(np.full(4096, value), make.dtype)
        yield make.case("half-not-accumulated-in-half", name, constant, value, WIDE)


def _ask_forms(make: Maker) -> Iterator[Case]:
    triangle, empty = make.tensors([3.0, -4.0], [])
    every = [make.tensor([], form) for form in ((0,), (2, 0), (0, 2, 3))]
    scalars = number_groups(*([make.tensor([value], ())] for value in (-3.0, 0.0)))
    matrix = make.tensor([2.0, -4.0, 4.0, 0.0], (2, 2))
    yield from make.rows(
        ("empty-tensor/alone", empty, 1.0, SHAPE),
        ("empty-tensor/beside-others", [*every, triangle], 1.0),
        ("zero-dimensional/two-examples", scalars, 1.0),
        ("dtype-kept/clipped", [matrix, triangle], 1.0, DTYPE),
        ("dtype-kept/not-clipped", [matrix, triangle], 16.0, DTYPE),
        ("dtype-accepted/alone", matrix, 1.0, DTYPE),
    )
    if make.dtype == "float32":
        shared = make.tensor([3.0, -4.0], layout="broadcast")
        yield make.case("layout", "broadcast-examples", number_groups([shared], [shared]), 2.5)


def _ask_effects(make: Maker) -> Iterator[Case]:
    examples = make.tensors([3.0, -4.0, 0.0]), make.tensors([0.0, 0.0, 0.5])
    with_zeros = number_groups(*examples, make.tensors([0.0, 0.0, 0.0]))
    yield from make.effects(number_groups(*examples), clipped=1.0, not_clipped=16.0, with_zeros=with_zeros)
    yield from make.refused_thresholds(number_groups(*examples))
    if make.dtype == "float32":
        # The square of a layer's part of the threshold has no sign.
        yield from make.table(
            "negative-threshold-refused",
            ("minus-one-layers-equal", number_groups(*examples), -1.0, {"layers": "equal"}),
            ("minus-one-layers-by-size", number_groups(*examples), -1.0, {"layers": "by size"}),
            expectation=expect("refused"),
        )
    yield from make.large_scalars(make.tensor([720.0, -960.0]))
