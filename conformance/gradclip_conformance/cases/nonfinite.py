"""Cases of NaN and infinity, in the gradients and in the threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..case import Case, NotSilent, RaisesOnNonfinite, ReturnedNorm, Untouched, Values
from .build import DTYPES, NORM_OPERATIONS, case, tensor

__all__ = ["cases"]

NONFINITE = {"nan": math.nan, "infinity": math.inf, "minus-infinity": -math.inf}


def cases() -> Iterator[Case]:
    """All cases of this theme."""
    for dtype in DTYPES:
        yield from _by_value(dtype)
        for operation in NORM_OPERATIONS:
            yield from _not_silent(operation, dtype)
            threshold = {"clip_norm": math.inf}
            finite = [tensor([3.0, 4.0, -0.0], dtype)]
            yield case(f"{operation}.infinite-threshold", "finite", dtype, finite, threshold, Untouched((0,)))
        yield from _error_flag(dtype)
        yield from _returned(dtype)


def _by_value(dtype: str) -> Iterator[Case]:
    some, bounds = [tensor([math.nan, 3.0, -0.5, math.nan], dtype)], {"min": -1.0, "max": 1.0}
    yield case("value.nan-stays", "min-and-max", dtype, some, bounds, Values())
    yield case("value.nan-stays", "max-only", dtype, some, {"max": 1.0}, Values())
    infinite = [tensor([math.inf, -math.inf, 0.5], dtype)]
    yield case("value.infinity-clipped", "min-and-max", dtype, infinite, bounds, Values())
    yield case("value.infinity-clipped", "max-only", dtype, infinite, {"max": 1.0}, Values())
    everything = [tensor([3.0, -3.0, -0.0, 0.5, math.inf, -math.inf, math.nan], dtype)]
    for name, low, high in (
        ("max-only", -math.inf, 1.0),
        ("min-only", -1.0, math.inf),
        ("neither", -math.inf, math.inf),
    ):
        yield case("value.infinite-bounds", name, dtype, everything, {"min": low, "max": high}, Values())
    yield case("value.infinite-bounds", "infinite-max-alone", dtype, everything, {"max": math.inf}, Values())


def _not_silent(operation: str, dtype: str) -> Iterator[Case]:
    for name, value in NONFINITE.items():
        rule = f"{operation}.{'nan' if name == 'nan' else 'infinity'}-not-silent"
        one_of_two = [tensor([3.0, value], dtype), tensor([4.0, -2.0], dtype)]
        yield case(rule, f"{name}-threshold-small", dtype, one_of_two, {"clip_norm": 1.0}, NotSilent())
        yield case(rule, f"{name}-threshold-large", dtype, one_of_two, {"clip_norm": 1024.0}, NotSilent())
    for rule, value in (("nan-not-silent", math.nan), ("infinity-not-silent", -math.inf)):
        many = [tensor([1.0, 2.0], dtype) for _ in range(9)]
        many[4] = tensor([value, 2.0], dtype)
        yield case(f"{operation}.{rule}", "one-among-many", dtype, many, {"clip_norm": 1.0}, NotSilent())


def _error_flag(dtype: str) -> Iterator[Case]:
    options = {"clip_norm": 1.0, "error_if_nonfinite": True}
    for name, value in NONFINITE.items():
        tensors = [tensor([3.0, 4.0], dtype), tensor([value, 1.0], dtype)]
        yield case("global-norm.error-if-nonfinite", name, dtype, tensors, options, RaisesOnNonfinite())
        yield case(
            "global-norm.error-if-nonfinite-atomic", name, dtype, tensors, options, RaisesOnNonfinite(atomic=True)
        )
        for norm, p in (("one", 1.0), ("infinity", math.inf)):
            of_order = {**options, "norm_type": p}
            variant = f"{name}-norm-{norm}"
            yield case("global-norm.error-if-nonfinite", variant, dtype, tensors, of_order, RaisesOnNonfinite())
    finite = [tensor([3.0], dtype), tensor([4.0], dtype)]
    yield case("global-norm.error-if-nonfinite", "finite-passes", dtype, finite, options, Values())
    excluded = [*finite, tensor([math.nan, math.inf], dtype, need_clip=False)]
    yield case("global-norm.error-if-nonfinite", "excluded-passes", dtype, excluded, options, Values())


def _returned(dtype: str) -> Iterator[Case]:
    for name, value in NONFINITE.items():
        tensors = [tensor([3.0, value], dtype), tensor([4.0], dtype)]
        rule = "global-norm.returned-norm-nonfinite"
        yield case(rule, name, dtype, tensors, {"clip_norm": 1.0}, ReturnedNorm(), ["returns_norm"])
