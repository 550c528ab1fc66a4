"""Make cases of the derivative of a clip. Each gradient has a cotangent, from which the backward pass starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gradclip_adapters.contract import Gradient

from .build import NORM_OPERATIONS, make_case, make_tensor
from .model import Case, expect

__all__ = ["make_cases"]

DTYPES = ("float32", "float64")

#: The norm of 3 and 4 is 5. The thresholds are below, at and above it.
THRESHOLDS = {"above": 2.5, "at-threshold": 5.0, "below": 8.0}


def make_cases() -> Iterator[Case]:
    """Yield the cases of all operations."""
    for dtype in DTYPES:
        yield from _make_value_cases(dtype)
        for operation in NORM_OPERATIONS:
            yield from _make_norm_cases(operation, dtype)
        apart = [_add_cotangent([3.0], [1.0], dtype), _add_cotangent([4.0], [-2.0], dtype)]
        for name, threshold in THRESHOLDS.items():
            yield _make_case("global-norm", f"{name}-together", dtype, apart, {"clip_norm": threshold})


def _make_value_cases(dtype: str) -> Iterator[Case]:
    inside = _add_cotangent([-1.0, 0.0, 1.5], [2.0, -1.0, 0.5], dtype)
    outside = _add_cotangent([-3.0, 1.0, 4.0], [2.0, -1.0, 0.5], dtype)
    at_bounds = _add_cotangent([-2.0, 1.0, 2.0], [2.0, -1.0, 0.5], dtype)
    for name, gradient in (("below", inside), ("above", outside), ("at-threshold", at_bounds)):
        yield _make_case("value", name, dtype, [gradient], {"max": 2.0})
    yield _make_case("value", "excluded", dtype, [inside, replace(outside, need_clip=False)], {"max": 2.0})


def _make_norm_cases(operation: str, dtype: str) -> Iterator[Case]:
    clipped, zeros = _add_cotangent([3.0, 4.0], [1.0, -2.0], dtype), _add_cotangent([0.0, 0.0], [1.0, -2.0], dtype)
    for name, threshold in THRESHOLDS.items():
        yield _make_case(operation, name, dtype, [clipped], {"clip_norm": threshold})
    yield _make_case(operation, "zero", dtype, [zeros], {"clip_norm": 2.5})
    yield _make_case(operation, "zero-beside-others", dtype, [clipped, zeros], {"clip_norm": 2.5})
    excluded = replace(_add_cotangent([6.0, 8.0], [1.0, 1.0], dtype), need_clip=False)
    yield _make_case(operation, "excluded", dtype, [clipped, excluded], {"clip_norm": 2.5})


def _add_cotangent(values: Sequence[float], cotangent: Sequence[float], dtype: str) -> Gradient:
    return replace(make_tensor(values, dtype), cotangent=make_tensor(cotangent, dtype).array)


def _make_case(operation: str, name: str, dtype: str, gradients: Sequence[Gradient], options: dict[str, float]) -> Case:
    return make_case(f"{operation}.derivative", name, dtype, gradients, options, expect("derivative"))
