"""Make cases of the derivative of a clip. Each gradient has a cotangent, from which the backward pass starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gradclip_adapters.contract import Gradient

from .build import NORM_OPERATIONS, Maker, list_makers
from .model import Case, expect

DTYPES = ("float32", "float64")

#: The norm of 3 and 4 is 5. The thresholds are below, at and above it.
THRESHOLDS = {"above": 2.5, "at-threshold": 5.0, "below": 8.0}


def make_cases() -> Iterator[Case]:
    """Yield the cases of all operations."""
    for dtype in DTYPES:
        for make in list_makers(dtype, ["value"]):
            yield from _make_value_cases(make)
        for make in list_makers(dtype, NORM_OPERATIONS):
            yield from _make_norm_cases(make)


def _make_value_cases(make: Maker) -> Iterator[Case]:
    inside, outside, at_bounds = (
        _add_cotangent(make, values, [2.0, -1.0, 0.5])
        for values in ([-1.0, 0.0, 1.5], [-3.0, 1.0, 4.0], [-2.0, 1.0, 2.0])
    )
    yield from make.table(
        "derivative",
        ("below", inside, 2.0),
        ("above", outside, 2.0),
        ("at-threshold", at_bounds, 2.0),
        ("excluded", [inside, replace(outside, need_clip=False)], 2.0),
        expectation=expect("derivative"),
    )


def _make_norm_cases(make: Maker) -> Iterator[Case]:
    clipped, zeros = (_add_cotangent(make, values, [1.0, -2.0]) for values in ([3.0, 4.0], [0.0, 0.0]))
    excluded = replace(_add_cotangent(make, [6.0, 8.0], [1.0, 1.0]), need_clip=False)
    apart = [_add_cotangent(make, [3.0], [1.0]), _add_cotangent(make, [4.0], [-2.0])]
    together = THRESHOLDS if make.operation.is_global else {}
    yield from make.table(
        "derivative",
        *((name, clipped, threshold) for name, threshold in THRESHOLDS.items()),
        ("zero", zeros, 2.5),
        ("zero-beside-others", [clipped, zeros], 2.5),
        ("excluded", [clipped, excluded], 2.5),
        *((f"{name}-together", apart, threshold) for name, threshold in together.items()),
        expectation=expect("derivative"),
    )


def _add_cotangent(make: Maker, values: Sequence[float], cotangent: Sequence[float]) -> Gradient:
    return replace(make.tensor(values), cotangent=make.tensor(cotangent).array)
