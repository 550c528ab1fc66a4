"""Make cases of exclusion: excluded gradients are neither counted nor changed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gradclip_adapters.contract import Gradient

from ..build import DTYPES, OPERATIONS, list_digits, make_case, make_clipping_options, make_tensor, round_to_tensor
from ..model import Case, expect

__all__ = ["make_cases"]


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        for operation in OPERATIONS:
            yield from _make_untouched(operation, dtype)
            yield from _exclude_all(operation, dtype)
        yield from _make_not_counted(dtype)


def _make_excluded(values: list[float], dtype: str) -> Gradient:
    return make_tensor(values, dtype, need_clip=False)


def _make_untouched(operation: str, dtype: str) -> Iterator[Case]:
    rule, options = f"{operation}.excluded-untouched", make_clipping_options(operation, 1.0)
    included, excluded = make_tensor([3.0, 4.0], dtype), _make_excluded([30.0, -0.0, -40.0], dtype)
    yield make_case(rule, "first", dtype, [excluded, included], options, expect("untouched", indices=(0,)))
    yield make_case(rule, "last", dtype, [included, excluded], options, expect("untouched", indices=(1,)))
    yield make_case(
        rule, "between", dtype, [included, excluded, included, excluded], options, expect("untouched", indices=(1, 3))
    )
    # These are the gradients of a linear layer. Its weight or its bias is excluded.
    weight, bias = [6.0, -2.0, 4.0, 8.0], [3.0, 4.0]
    yield make_case(
        rule,
        "weight",
        dtype,
        [make_tensor(weight, dtype, (2, 2), need_clip=False), make_tensor(bias, dtype)],
        options,
        expect("untouched", indices=(0,)),
    )
    yield make_case(
        rule,
        "bias",
        dtype,
        [make_tensor(weight, dtype, (2, 2)), make_tensor(bias, dtype, need_clip=False)],
        options,
        expect("untouched", indices=(1,)),
    )
    nonfinite = _make_excluded([math.nan, math.inf, -math.inf], dtype)
    yield make_case(rule, "nonfinite", dtype, [included, nonfinite], options, expect("untouched", indices=(1,)))
    yield make_case(
        rule,
        "every-digit",
        dtype,
        [included, _make_excluded(list_digits(dtype), dtype)],
        options,
        expect("untouched", indices=(1,)),
    )
    shapes = [
        make_tensor([30.0], dtype, (), need_clip=False),
        make_tensor([9.0, -8.0] * 4, dtype, (2, 2, 2), need_clip=False),
    ]
    yield make_case(rule, "shapes", dtype, [*shapes, included], options, expect("untouched", indices=(0, 1)))
    for layout in ("strided", "transposed"):
        laid_out = make_tensor([6.0, -2.0, 4.0, 8.0, 1.0, 0.0], dtype, (2, 3), need_clip=False, layout=layout)
        yield make_case(rule, layout, dtype, [laid_out, included], options, expect("untouched", indices=(0,)))
    if dtype == "float32":
        yield from _exclude_every_size(rule, options, included, dtype)
    # NumPy bools and integers equal True and False.
    for kind in ("numpy", "int"):
        flags, four = {**options, "flags": kind}, [excluded, included, excluded, included]
        right = expect("values", may_refuse=kind == "int")
        yield make_case(f"{operation}.flag-kinds", kind, dtype, four, flags, right, ["flag_kinds"])
    # A function that drops the None gradients, but not their flags, uses the flags of other gradients.
    after_none = [make_tensor(None, dtype), excluded, included]
    yield make_case(rule, "after-none", dtype, after_none, options, expect("untouched", indices=(1,)))


def _exclude_every_size(rule: str, options: dict[str, float], included: Gradient, dtype: str) -> Iterator[Case]:
    long = round_to_tensor(np.tile(list_digits(dtype), 45), dtype)
    yield make_case(
        rule, "long", dtype, [included, replace(long, need_clip=False)], options, expect("untouched", indices=(1,))
    )
    yield make_case(
        rule,
        "empty",
        dtype,
        [make_tensor([], dtype, (0, 2), need_clip=False), included],
        options,
        expect("untouched", indices=(0,)),
    )
    thirty = [make_tensor([(-1.0) ** k * (k + 1)], dtype, need_clip=k % 3 > 0) for k in range(30)]
    yield make_case(rule, "many", dtype, thirty, options, expect("untouched", indices=tuple(range(0, 30, 3))))


def _exclude_all(operation: str, dtype: str) -> Iterator[Case]:
    rule, options = f"{operation}.all-excluded", make_clipping_options(operation, 1.0)
    excluded = [_make_excluded([3.0], dtype), _make_excluded([-4.0, 5.0], dtype)]
    yield make_case(rule, "two-tensors", dtype, excluded, options, expect("untouched", indices=(0, 1)))
    if operation == "global-norm":
        yield make_case(rule, "returned-norm", dtype, excluded, options, expect("returned-norm"), ["returns_norm"])
    if operation != "value" and dtype == "float32":
        # The maximum over an empty list is an error in many libraries.
        of_order = {**options, "norm_type": math.inf}
        yield make_case(rule, "norm-infinity", dtype, excluded, of_order, expect("untouched", indices=(0, 1)))
        if operation == "global-norm":
            returned = ["returns_norm"]
            yield make_case(
                rule, "returned-norm-infinity", dtype, excluded, of_order, expect("returned-norm"), returned
            )


def _make_not_counted(dtype: str) -> Iterator[Case]:
    rule = "global-norm.excluded-not-counted"
    tensors = [make_tensor([3.0], dtype), make_tensor([4.0], dtype), _make_excluded([12.0], dtype)]
    yield make_case(rule, "above", dtype, tensors, {"clip_norm": 2.5}, expect("values"))
    # The norm is 13 with the excluded gradient, and 5 without it. Only 13 is above the threshold.
    yield make_case(rule, "at-threshold", dtype, tensors, {"clip_norm": 5.0}, expect("untouched", indices=(0, 1)))
    # The threshold differs from the norm, so that only exclusion decides, and not the formula at the threshold.
    yield make_case(rule, "below", dtype, tensors, {"clip_norm": 6.0}, expect("untouched", indices=(0, 1)))
    yield make_case(
        rule,
        "two-tensors",
        dtype,
        [_make_excluded([96.0, 0.5], dtype), make_tensor([3.0, 4.0], dtype)],
        {"clip_norm": 1.0},
        expect("values"),
    )
    yield make_case(
        rule, "returned-norm", dtype, tensors, {"clip_norm": 1.0}, expect("returned-norm"), ["returns_norm"]
    )
    yield make_case(
        rule, "returned-norm-below", dtype, tensors, {"clip_norm": 8.0}, expect("returned-norm"), ["returns_norm"]
    )
    for name, shape in (
        ("zero-dimensional", ()),
        ("matrix", (2, 3)),
        ("three-dimensional", (2, 3, 2)),
        ("long", (203,)),
    ):
        other = replace(round_to_tensor(np.full(shape, 12.0), dtype), need_clip=False)
        yield make_case(
            rule,
            name,
            dtype,
            [other, make_tensor([3.0, 4.0], dtype)],
            {"clip_norm": 6.0},
            expect("untouched", indices=(1,)),
        )
    if dtype == "float32":
        for name, p in (
            ("norm-half", 0.5),
            ("norm-one", 1.0),
            ("norm-three-halves", 1.5),
            ("norm-three", 3.0),
            ("norm-infinity", math.inf),
        ):
            options, returned = {"clip_norm": 2.5, "norm_type": p}, ["returns_norm"]
            yield make_case(rule, name, dtype, tensors, options, expect("values"))
            yield make_case(rule, f"returned-{name}", dtype, tensors, options, expect("returned-norm"), returned)
    nonfinite = [make_tensor([3.0, 4.0], dtype), _make_excluded([math.nan, math.inf], dtype)]
    yield make_case(rule, "nonfinite", dtype, nonfinite, {"clip_norm": 1.0}, expect("values"))
