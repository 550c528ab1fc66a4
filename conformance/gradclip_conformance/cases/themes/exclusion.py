"""Make cases of exclusion: excluded gradients are neither counted nor changed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gradclip_adapters.contract import Gradient

from ..build import (
    DTYPES,
    Maker,
    choose_orders,
    keep,
    keep_all,
    keep_excluded,
    list_digits,
    list_makers,
    make_odd_nans,
    round_to_tensor,
)
from ..model import Case, expect


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        for make in list_makers(dtype):
            yield from _make_untouched(make)
            yield from _exclude_all(make)
            if make.operation.is_global:
                yield from _make_not_counted(make)


def _make_untouched(make: Maker) -> Iterator[Case]:
    included, excluded = make.tensor([3.0, 4.0]), _make_excluded(make, [30.0, -0.0, -40.0])
    # These are the gradients of a linear layer. Its weight or its bias is excluded.
    weight, bias = make.tensor([6.0, -2.0, 4.0, 8.0], (2, 2)), make.tensor([3.0, 4.0])
    shapes = [_make_excluded(make, [30.0], ()), _make_excluded(make, [9.0, -8.0] * 4, (2, 2, 2))]
    strided, transposed = (
        make.tensor([6.0, -2.0, 4.0, 8.0, 1.0, 0.0], (2, 3), need_clip=False, layout=layout)
        for layout in ("strided", "transposed")
    )
    yield from make.table(
        "excluded-untouched",
        ("first", [excluded, included], 1.0),
        ("last", [included, excluded], 1.0),
        ("between", [included, excluded, included, excluded], 1.0),
        ("weight", [replace(weight, need_clip=False), bias], 1.0),
        ("bias", [weight, replace(bias, need_clip=False)], 1.0),
        ("nonfinite", [included, _make_excluded(make, [math.nan, math.inf, -math.inf])], 1.0),
        ("every-digit", [included, _make_excluded(make, list_digits(make.dtype))], 1.0),
        ("shapes", [*shapes, included], 1.0),
        ("strided", [strided, included], 1.0),
        ("transposed", [transposed, included], 1.0),
        # A function that drops the None gradients, but not their flags, uses the flags of other gradients.
        ("after-none", [make.tensor(None), excluded, included], 1.0),
        expectation=keep_excluded,
    )
    if make.dtype == "float32":
        long = round_to_tensor(np.tile(list_digits(make.dtype), 45), make.dtype)
        thirty = [make.tensor([(-1.0) ** k * (k + 1)], need_clip=k % 3 > 0) for k in range(30)]
        yield from make.table(
            "excluded-untouched",
            ("long", [included, replace(long, need_clip=False)], 1.0),
            ("empty", [_make_excluded(make, [], (0, 2)), included], 1.0),
            ("bits-of-nan", [included, make_odd_nans()], 1.0),
            ("many", thirty, 1.0),
            expectation=keep_excluded,
        )
    # NumPy bools and integers equal True and False.
    for kind in ("numpy", "int"):
        right = expect("values", may_refuse=kind == "int")
        four = [excluded, included, excluded, included]
        yield make.case("flag-kinds", kind, four, 1.0, right, flags=kind)


def _make_excluded(make: Maker, values: list[float], shape: tuple[int, ...] | None = None) -> Gradient:
    return make.tensor(values, shape, need_clip=False)


def _exclude_all(make: Maker) -> Iterator[Case]:
    rule, returned = "all-excluded", expect("returned-norm")
    excluded = [_make_excluded(make, [3.0]), _make_excluded(make, [-4.0, 5.0])]
    yield make.case(rule, "two-tensors", excluded, 1.0, keep_all)
    if make.operation.returns_norm:
        yield make.case(rule, "returned-norm", excluded, 1.0, returned)
    if make.operation.is_by_norm and make.dtype == "float32":
        # The maximum over an empty list is an error in many libraries.
        yield make.case(rule, "norm-infinity", excluded, 1.0, keep_all, norm_type=math.inf)
        if make.operation.returns_norm:
            yield make.case(rule, "returned-norm-infinity", excluded, 1.0, returned, norm_type=math.inf)


def _make_not_counted(make: Maker) -> Iterator[Case]:
    rule, returned = "excluded-not-counted", expect("returned-norm")
    triangle = make.tensor([3.0, 4.0])
    tensors = [*make.tensors([3.0], [4.0]), _make_excluded(make, [12.0])]
    shapes = {"zero-dimensional": (), "matrix": (2, 3), "three-dimensional": (2, 3, 2), "long": (203,)}
    others = {name: round_to_tensor(np.full(shape, 12.0), make.dtype) for name, shape in shapes.items()}
    yield from make.table(
        rule,
        ("above", tensors, 2.5),
        # The norm is 13 with the excluded gradient, and 5 without it. Only 13 is above the threshold.
        ("at-threshold", tensors, 5.0, keep(0, 1)),
        # The threshold differs from the norm, so that only exclusion decides, and not the formula at the threshold.
        ("below", tensors, 6.0, keep(0, 1)),
        ("two-tensors", [_make_excluded(make, [96.0, 0.5]), triangle], 1.0),
        ("returned-norm", tensors, 1.0, returned),
        ("returned-norm-below", tensors, 8.0, returned),
        *((name, [replace(other, need_clip=False), triangle], 6.0, keep(1)) for name, other in others.items()),
    )
    if make.dtype == "float32":
        for name, p in choose_orders("half", "one", "three-halves", "three", "infinity").items():
            yield make.case(rule, name, tensors, 2.5, norm_type=p)
            yield make.case(rule, f"returned-{name}", tensors, 2.5, returned, norm_type=p)
    yield make.case(rule, "nonfinite", [triangle, _make_excluded(make, [math.nan, math.inf])], 1.0)
