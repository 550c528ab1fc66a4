"""Make cases of NaN and infinity, in the gradients and in the threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..build import DTYPES, NORM_OPERATIONS, make_case, make_tensor, round_to_tensor
from ..model import Case, expect

__all__ = ["make_cases"]

NONFINITE = {"nan": math.nan, "infinity": math.inf, "minus-infinity": -math.inf}


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        yield from _make_value_cases(dtype)
        for operation in NORM_OPERATIONS:
            yield from _ask_not_silent(operation, dtype)
            yield from _ask_not_silent_in_any_form(operation, dtype)
            if dtype == "float32":
                yield from _ask_not_silent_anywhere(operation, dtype)
            threshold = {"clip_norm": math.inf}
            finite = [make_tensor([3.0, 4.0, -0.0], dtype)]
            yield make_case(
                f"{operation}.infinite-threshold", "finite", dtype, finite, threshold, expect("untouched", indices=(0,))
            )
            for name, value in NONFINITE.items():
                # If each gradient is clipped by its own norm, a finite gradient here would break the rule about finite
                # gradients.
                beside = [make_tensor([4.0, -2.0], dtype)] if operation == "global-norm" else []
                some = [make_tensor([3.0, value], dtype), *beside]
                rule, visible = f"{operation}.infinite-threshold-nonfinite", expect("not-silent", unchanged=True)
                yield make_case(rule, name, dtype, some, threshold, visible)
        yield from _set_error_flag(dtype)
        yield from _ask_returned_norm(dtype)


def _make_value_cases(dtype: str) -> Iterator[Case]:
    some, bounds = [make_tensor([math.nan, 3.0, -0.5, math.nan], dtype)], {"min": -1.0, "max": 1.0}
    yield make_case("value.nan-stays", "min-and-max", dtype, some, bounds, expect("values"))
    yield make_case("value.nan-stays", "max-only", dtype, some, {"max": 1.0}, expect("values"))
    yield make_case("value.nan-stays", "equal-bounds", dtype, some, {"min": 0.5, "max": 0.5}, expect("values"))
    values = [math.nan, 3.0, -math.inf, -3.0, math.inf, 0.5]
    forms = [
        make_tensor(values, dtype, (2, 3)),
        make_tensor([math.nan], dtype, ()),
        make_tensor([-math.inf], dtype, ()),
    ]
    yield make_case("value.nan-stays", "every-form", dtype, forms, bounds, expect("values"))
    yield make_case(
        "value.nan-stays", "long", dtype, [round_to_tensor(np.resize(values, 1003), dtype)], bounds, expect("values")
    )
    one = {"max": 1.0}
    yield make_case("value.nan-stays", "every-form-max-only", dtype, forms, one, expect("values"))
    long = [round_to_tensor(np.resize(values, 1003), dtype)]
    yield make_case("value.nan-stays", "long-max-only", dtype, long, one, expect("values"))
    infinite = [make_tensor([math.inf, -math.inf, 0.5], dtype)]
    yield make_case("value.infinity-clipped", "min-and-max", dtype, infinite, bounds, expect("values"))
    yield make_case("value.infinity-clipped", "max-only", dtype, infinite, {"max": 1.0}, expect("values"))
    everything = [make_tensor([3.0, -3.0, -0.0, 0.5, math.inf, -math.inf, math.nan], dtype)]
    for name, low, high in (
        ("max-only", -math.inf, 1.0),
        ("min-only", -1.0, math.inf),
        ("neither", -math.inf, math.inf),
    ):
        yield make_case("value.infinite-bounds", name, dtype, everything, {"min": low, "max": high}, expect("values"))
    yield make_case(
        "value.infinite-bounds", "infinite-max-alone", dtype, everything, {"max": math.inf}, expect("values")
    )


def _ask_not_silent(operation: str, dtype: str) -> Iterator[Case]:
    for name, value in NONFINITE.items():
        rule = f"{operation}.{'nan' if name == 'nan' else 'infinity'}-not-silent"
        one_of_two = [make_tensor([3.0, value], dtype), make_tensor([4.0, -2.0], dtype)]
        yield make_case(rule, f"{name}-threshold-small", dtype, one_of_two, {"clip_norm": 1.0}, expect("not-silent"))
        yield make_case(rule, f"{name}-threshold-large", dtype, one_of_two, {"clip_norm": 1024.0}, expect("not-silent"))
    for rule, value in (("nan-not-silent", math.nan), ("infinity-not-silent", -math.inf)):
        many = [make_tensor([1.0, 2.0], dtype) for _ in range(9)]
        many[4] = make_tensor([value, 2.0], dtype)
        yield make_case(f"{operation}.{rule}", "one-among-many", dtype, many, {"clip_norm": 1.0}, expect("not-silent"))


def _ask_not_silent_in_any_form(operation: str, dtype: str) -> Iterator[Case]:
    """Put a NaN or an infinity in gradients of every form."""
    for rule, value in (("nan-not-silent", math.nan), ("infinity-not-silent", math.inf)):
        six = [3.0, 1.0, -2.0, value, 0.0, 5.0]
        for name, gradient in (
            ("zero-dimensional", make_tensor([value], dtype, ())),
            ("matrix", make_tensor(six, dtype, (2, 3))),
            ("three-dimensional", make_tensor(six, dtype, (1, 3, 2))),
            ("strided", make_tensor(six, dtype, layout="strided")),
            ("transposed", make_tensor(six, dtype, (2, 3), layout="transposed")),
            ("long", round_to_tensor(np.tile([*[0.25] * 50, value], 20), dtype)),
        ):
            beside = make_tensor([4.0, -2.0], dtype)
            yield make_case(
                f"{operation}.{rule}", name, dtype, [beside, gradient], {"clip_norm": 1.0}, expect("not-silent")
            )


def _ask_not_silent_anywhere(operation: str, dtype: str) -> Iterator[Case]:
    """Put a NaN or an infinity at the end, put both kinds together, and use other norms and thresholds."""
    small = {"clip_norm": 1.0}
    nan, infinity = f"{operation}.nan-not-silent", f"{operation}.infinity-not-silent"
    for rule, value in ((nan, math.nan), (infinity, math.inf)):
        beside = make_tensor([4.0, -2.0], dtype)
        last = round_to_tensor(np.tile([*[1.0] * 30, value], 4), dtype)
        yield make_case(rule, "last-of-many-elements", dtype, [beside, last], small, expect("not-silent"))
        one_of_two = [make_tensor([3.0, value], dtype), beside]
        for name, p in (("norm-one", 1.0), ("norm-three", 3.0), ("norm-infinity", math.inf)):
            yield make_case(rule, name, dtype, one_of_two, {**small, "norm_type": p}, expect("not-silent"))
        yield make_case(rule, "threshold-zero", dtype, one_of_two, {"clip_norm": 0.0}, expect("not-silent"))
    both = [make_tensor([3.0, math.inf], dtype), make_tensor([math.nan, -2.0], dtype)]
    yield make_case(nan, "beside-infinity", dtype, both, small, expect("not-silent"))


def _set_error_flag(dtype: str) -> Iterator[Case]:
    options = {"clip_norm": 1.0, "error_if_nonfinite": True}
    for name, value in NONFINITE.items():
        tensors = [make_tensor([3.0, 4.0], dtype), make_tensor([value, 1.0], dtype)]
        yield make_case("global-norm.error-if-nonfinite", name, dtype, tensors, options, expect("raises-on-nonfinite"))
        yield make_case(
            "global-norm.error-if-nonfinite-atomic",
            name,
            dtype,
            tensors,
            options,
            expect("raises-on-nonfinite", atomic=True),
        )
        for norm, p in (("one", 1.0), ("three", 3.0), ("infinity", math.inf)):
            of_order = {**options, "norm_type": p}
            variant = f"{name}-norm-{norm}"
            yield make_case(
                "global-norm.error-if-nonfinite", variant, dtype, tensors, of_order, expect("raises-on-nonfinite")
            )
        # The option is either left out or set to False.
        without = [("", {"clip_norm": 1.0}), ("-where-it-is-false", {"clip_norm": 1.0, "error_if_nonfinite": False})]
        for suffix, passing in without:
            needed = ["error_if_nonfinite"]
            variant = f"{name}-passes{suffix}"
            yield make_case(
                "global-norm.error-if-nonfinite", variant, dtype, tensors, passing, expect("not-silent"), needed
            )
    forms = [
        make_tensor([3.0], dtype, ()),
        make_tensor([1.0, -2.0], dtype, (2, 1)),
        make_tensor([4.0] * 4, dtype, (2, 1, 2)),
    ]
    every = [make_tensor([2.0], dtype), *forms, make_tensor([1.0, math.nan], dtype, (1, 2)), *forms]
    atomic = expect("raises-on-nonfinite", atomic=True)
    yield make_case("global-norm.error-if-nonfinite-atomic", "nan-among-every-form", dtype, every, options, atomic)
    finite = [make_tensor([3.0], dtype), make_tensor([4.0], dtype)]
    yield make_case("global-norm.error-if-nonfinite", "finite-passes", dtype, finite, options, expect("values"))
    excluded = [*finite, make_tensor([math.nan, math.inf], dtype, need_clip=False)]
    yield make_case("global-norm.error-if-nonfinite", "excluded-passes", dtype, excluded, options, expect("values"))
    if dtype == "float32":
        yield from _set_error_flag_elsewhere("global-norm.error-if-nonfinite", options, dtype)


def _set_error_flag_elsewhere(rule: str, options: dict[str, Any], dtype: str) -> Iterator[Case]:
    """Set the flag with other thresholds and numbers of gradients, and with unusual norms that are finite."""
    one = [make_tensor([3.0, 4.0], dtype), make_tensor([math.nan], dtype)]
    for name, tensors, threshold in (
        ("nan-threshold-large", one, 1024.0),
        ("nan-threshold-infinite", one, math.inf),
        ("nan-threshold-zero", one, 0.0),
        ("nan-first-of-many", [*reversed(one), *one[:1] * 30], 1.0),
    ):
        at = {**options, "clip_norm": threshold}
        yield make_case(rule, name, dtype, tensors, at, expect("raises-on-nonfinite"))
    yield make_case(rule, "zeros-pass", dtype, [make_tensor([0.0, 0.0], dtype)], options, expect("values"))
    yield make_case(
        rule,
        "none-passes",
        dtype,
        [make_tensor([3.0, 4.0], dtype), make_tensor(None, dtype)],
        options,
        expect("values"),
    )
    yield make_case(rule, "empty-list-passes", dtype, [], options, expect("structure", aspect="count"))
    huge = [make_tensor([3.0 * 2**65, 4.0 * 2**65], dtype)]
    yield make_case(
        rule, "overflow-of-squares-passes", dtype, huge, {**options, "clip_norm": 2.0**65}, expect("values", wide=True)
    )


def _ask_returned_norm(dtype: str) -> Iterator[Case]:
    rule = "global-norm.returned-norm-nonfinite"
    for name, value in NONFINITE.items():
        tensors = [make_tensor([3.0, value], dtype), make_tensor([4.0], dtype)]
        yield make_case(rule, name, dtype, tensors, {"clip_norm": 1.0}, expect("returned-norm"), ["returns_norm"])
        if dtype == "float32":
            for norm, p in (("one", 1.0), ("three", 3.0), ("infinity", math.inf)):
                options = {"clip_norm": 1.0, "norm_type": p}
                yield make_case(
                    rule, f"{name}-norm-{norm}", dtype, tensors, options, expect("returned-norm"), ["returns_norm"]
                )
    both = [make_tensor([3.0, math.inf], dtype), make_tensor([math.nan], dtype)]
    yield make_case(
        rule, "nan-and-infinity", dtype, both, {"clip_norm": 1.0}, expect("returned-norm"), ["returns_norm"]
    )
