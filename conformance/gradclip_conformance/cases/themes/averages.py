"""Make the cases of the operations whose norm is an average: block RMS and average norm.

The root mean square of m elements is their Euclidean norm divided by the root of m. Their average norm is that norm
divided by m. Almost all gradients here have 1, 4 or 16 elements, so that both divisions are exact. The numbers are
those of the cases of clips by norm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gradclip_adapters.contract import Gradient

from ...oracle.formats import FORMATS, next_down, next_up
from ..build import (
    AVERAGES,
    DTYPES,
    Maker,
    keep_all,
    keep_excluded,
    list_digits,
    list_makers,
    make_odd_nans,
    make_very_long,
    round_to_tensor,
)
from ..model import Case, expect
from .nonfinite import NOT_SILENT, NOT_SILENT_NUMBERS, UNCHANGED
from .range import FAR_APART, HARDLY_APART, HUGE, LEAVES_RANGE, SMALL_PRODUCT, SMALL_QUOTIENT, TINY, WIDE
from .structure import DTYPE, NONE, SHAPE


def make_cases() -> Iterator[Case]:
    """Yield all cases of these operations."""
    for dtype in DTYPES:
        for make in list_makers(dtype, AVERAGES):
            yield from _ask_formula(make)
            yield from _ask_each_alone(make)
            yield from _ask_zeros(make)
            yield from _ask_nonfinite(make)
            yield from _ask_range(make)
            yield from _ask_sums(make)
            yield from _ask_forms(make)
            yield from _ask_effects(make)


def _divide(make: Maker, norm: float, elements: int = 4) -> float:
    """Return the average that belongs to a Euclidean norm of this number of elements."""
    return norm / (math.sqrt(elements) if make.operation.averaging_power == 1 else elements)


def _make_triangle(make: Maker, unit: float = 1.0) -> Gradient:
    """Return a gradient of four elements with the Euclidean norm 5."""
    return make.tensor([3 * unit, -4 * unit, 0.0, 0.0])


def _ask_formula(make: Maker) -> Iterator[Case]:
    dtype, triangle, digits = make.dtype, _make_triangle(make), make.tensor(list_digits(make.dtype))
    # For elements of this size, an epsilon of 1e-6 added to the norm changes the result in every dtype.
    small = 2.0**-8 if dtype == "float16" else 2.0**-18
    little = _make_triangle(make, small)
    yield from make.table(
        "scaled-above",
        ("three-four-five", triangle, _divide(make, 1.0)),
        ("by-half", triangle, _divide(make, 2.5)),
        ("between-average-and-norm", triangle, _divide(make, 4.0)),
        ("small", little, _divide(make, 2.5 * small)),
        ("matrix", make.tensor([2.0, -4.0, 4.0, 0.0], (2, 2)), _divide(make, 2.0)),
        ("sixteen-elements", make.tensor([1.0, -2.0, 2.0, 0.0] * 4, (2, 2, 4)), _divide(make, 3.0, 16)),
        # The parts along each axis differ in their norms, so a norm of parts is wrong.
        ("four-axes", make.tensor([2.0, -4.0, 4.0, *[0.0] * 5], (2, 2, 1, 2)), _divide(make, 3.0, 8)),
        ("one-element", make.tensor([-6.0]), 2.0),
        ("uneven", make.tensor([1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0]), 1.0),
        ("next-number", triangle, next_down(_divide(make, 5.0), dtype)),
    )
    if dtype in ("float32", "float64"):
        long = round_to_tensor(np.tile([1.0, -2.0, 2.0], 3367), dtype)
        yield make.case("scaled-above", "ten-thousand-elements", long, 2.0**-7)
        if dtype == "float32":
            yield make.case("scaled-above", "beyond-a-million", make_very_long(), 2.0**-24)
    yield from make.table(
        "identity-below",
        ("three-four-five", triangle, _divide(make, 8.0)),
        # The Euclidean norm is above the threshold, and the average is below.
        ("norm-above", triangle, 3.0),
        ("matrix", make.tensor([-0.0, 1.0, -0.75, -0.0], (2, 2)), 4.0),
        ("zeros", make.tensor([0.0, -0.0]), 1.0),
        ("small", little, _divide(make, 8 * small)),
        ("every-digit", digits, 2.0),
        ("next-number", triangle, next_up(_divide(make, 5.0), dtype)),
        *((f"threshold-of-digits-{place}", digits, 2 * abs(list_digits(dtype)[place])) for place in (2, 11, 20)),
        expectation=keep_all,
    )
    yield from make.table(
        "at-threshold",
        ("three-four-five", triangle, _divide(make, 5.0)),
        ("one-element", make.tensor([-0.75]), 0.75),
        ("small", little, _divide(make, 5 * small)),
        expectation=keep_all,
    )


def _ask_each_alone(make: Maker) -> Iterator[Case]:
    triangle, twice, little = _make_triangle(make), _make_triangle(make, 2.0), make.tensor([0.5, -0.25, 0.0, 0.0])
    # The same elements among more zeros have a smaller average.
    longer = make.tensor([3.0, -4.0, *[0.0] * 14])
    beginning, other = make.tensors([0.0] * 62 + [3.0, -4.0], [0.0] * 62 + [6.0, 8.0])
    yield from make.table(
        "each-tensor-alone",
        ("above-and-below", [triangle, little], _divide(make, 1.0)),
        ("both-above", [triangle, twice], _divide(make, 2.0)),
        ("two-lengths", [triangle, longer], _divide(make, 5.0, 16)),
        ("same-beginning", [beginning, other], _divide(make, 2.5, 64)),
    )


def _ask_zeros(make: Maker) -> Iterator[Case]:
    zeros, triangle = make.tensor([0.0, 0.0, -0.0, 0.0]), _make_triangle(make)
    yield from make.rows(
        ("zero-gradient/alone", zeros, 1.0),
        ("zero-gradient/beside-others", [zeros, triangle], _divide(make, 1.0)),
        ("zero-gradient-zero-threshold/alone", zeros, 0.0),
        ("zero-threshold/two-tensors", [triangle, make.tensor([0.5])], 0.0),
    )


def _ask_nonfinite(make: Maker) -> Iterator[Case]:
    beside, four = _make_triangle(make), [3.0, math.nan, -1.0, 0.0]
    for rule, name, value in NOT_SILENT_NUMBERS:
        some = make.tensor([3.0, value, -1.0, 0.0])
        yield from make.rows(
            (f"{rule}/{name}", some, 1.0, NOT_SILENT),
            (f"{rule}/{name}-beside-finite", [beside, some], _divide(make, 1.0), NOT_SILENT),
            (f"infinite-threshold-nonfinite/{name}", some, math.inf, UNCHANGED),
        )
    yield from make.rows(
        ("nan-not-silent/threshold-zero", make.tensor(four), 0.0, NOT_SILENT),
        ("nan-not-silent/threshold-zero-of-a-matrix", make.tensor(four, (2, 2)), 0.0, NOT_SILENT),
        ("infinite-threshold/finite", beside, math.inf, keep_all),
    )


def _ask_range(make: Maker) -> Iterator[Case]:
    digits = abs(list_digits(make.dtype)[7]) * 8
    for rule, units in (("overflow-of-squares", HUGE), ("underflow-of-squares", TINY)):
        unit = units[make.dtype]
        triangle = _make_triangle(make, unit)
        yield make.case(rule, "three-four-five", triangle, _divide(make, unit), WIDE)
        yield make.case(rule, "below", triangle, _divide(make, digits * unit), keep_all)
    for name, unlike in (("elements-far-apart", SMALL_QUOTIENT), ("small-products", SMALL_PRODUCT)):
        if make.dtype in unlike:
            large, little = unlike[make.dtype]
            gradient = make.tensor([large, little, -little, 0.0])
            yield make.case("intermediate-range", name, gradient, _divide(make, large / 2))
    if make.dtype == "float16":
        # The norm is subnormal, and its reciprocal is beyond the range.
        unit = 2.0**-19
        yield make.case("intermediate-range", "reciprocal", _make_triangle(make, unit), _divide(make, 2.5 * unit))
    for name, (small, large) in (("far-apart", FAR_APART[make.dtype]), ("hardly-apart", HARDLY_APART[make.dtype])):
        distant = _make_triangle(make, large)
        yield make.case("coefficient-underflow", name, distant, _divide(make, small), LEAVES_RANGE)


def _ask_sums(make: Maker) -> Iterator[Case]:
    if FORMATS[make.dtype].precision > 11:
        return
    # A running sum of ones stops at 2048 with 11 bits, and at 256 with 8 bits. The sum of 256s leaves float16's range.
    yield from make.table(
        "half-not-accumulated-in-half",
        *(
            (name, round_to_tensor(np.full(4096, value), make.dtype), _divide(make, 16.0 * value, 4096))
            for name, value in (("running-sum", 1.0), ("sum-out-of-range", 16.0))
        ),
        expectation=WIDE,
    )


def _ask_forms(make: Maker) -> Iterator[Case]:
    triangle, threshold = _make_triangle(make), _divide(make, 1.0)
    empty = [make.tensor([], form) for form in ((0, 2), (2, 0), (0, 2, 3))]
    scalars = [make.tensor([value], ()) for value in (3.0, -0.125, -6.0)]
    forms = [make.tensor([2.0, -4.0, 4.0, 0.0], form) for form in ((2, 2), (1, 2, 1, 2))]
    yield from make.rows(
        ("none-stays-none/between", [triangle, make.tensor(None), triangle], threshold, NONE),
        ("empty-tensor/alone", make.tensor([]), threshold, SHAPE),
        ("empty-tensor/beside-others", [*empty, triangle], threshold),
        ("zero-dimensional/values", scalars, 1.0),
        ("zero-dimensional/shape", scalars, 1.0, SHAPE),
        ("shape-kept/clipped", forms, threshold, SHAPE),
        ("dtype-kept/clipped", forms, threshold, DTYPE),
        ("shape-kept/not-clipped", forms, 16.0, SHAPE),
        ("dtype-kept/not-clipped", forms, 16.0, DTYPE),
        ("dtype-accepted/alone", forms[0], threshold, DTYPE),
    )
    finite = make.tensor([8.0, -0.0, 3.0, 1.0], need_clip=False)
    nonfinite = make.tensor([math.nan, -math.inf, 1.0, 0.0], need_clip=False)
    yield from make.table(
        "excluded-untouched",
        ("finite", [triangle, finite], threshold),
        ("first", [finite, triangle], threshold),
        ("nonfinite", [triangle, nonfinite], threshold),
        ("every", [finite, nonfinite], threshold),
        ("after-none", [make.tensor(None), finite, triangle], threshold),
        expectation=keep_excluded,
    )
    if make.dtype == "float32":
        yield from make.rows(
            ("excluded-untouched/bits-of-nan", [triangle, make_odd_nans()], threshold, keep_excluded),
            ("layout/broadcast-columns", make.tensor([2.0, 2.0, -4.0, -4.0], (2, 2), layout="broadcast"), threshold),
        )


def _ask_effects(make: Maker) -> Iterator[Case]:
    gradients = [_make_triangle(make), make.tensor([2.0, -4.0, 4.0, 0.0], (2, 2))]
    with_zeros = [*gradients, make.tensor([0.0, -0.0])]
    yield from make.effects(gradients, clipped=_divide(make, 1.0), not_clipped=16.0, with_zeros=with_zeros)
    # NumPy warns of the mean of no elements.
    with_empty = [*gradients, make.tensor([])]
    yield make.case("no-warnings", "beside-empty", with_empty, _divide(make, 1.0), expect("no-warnings"))
    yield from make.refused_thresholds(gradients)
    # The square of the threshold is beyond the range of float16, and so are its products with 16 and the root of 16.
    yield from make.large_scalars(make.tensor([2.0**15, -(2.0**15)] * 8), _divide(make, 2.0**16, 16))
