"""Make cases of gradients that several processes share: split along an axis, or copied.

Process `k` of `n` has the rows from `k * ceil(length / n)`, so the last processes may have fewer rows, or none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradclip_adapters.contract import Gradient

from .build import DTYPES, NORM_OPERATIONS, OPERATIONS, make_case, make_clipping_options, make_tensor
from .model import Case, Expect, expect
from .themes.range import HUGE, TINY

__all__ = ["make_cases"]

#: The number of processes, unless the name of the case gives another.
WORLD = 2

#: The cases whose arithmetic depends on the dtype. The others are asked in one dtype only, because engines are slow.
IN_EVERY_DTYPE = ("split", "copied", "split-and-copied", "uneven", "empty-part", "norm-infinity")


def make_cases() -> Iterator[Case]:
    """Yield the cases of every operation."""
    for dtype in DTYPES:
        made = [case for operation in OPERATIONS for case in _make_forms(operation, dtype)]
        for operation in NORM_OPERATIONS:
            made += [*_make_norm_cases(operation, dtype), *_make_extreme_cases(operation, dtype)]
        yield from (case for case in made if dtype == "float32" or case.variant in IN_EVERY_DTYPE)


def _make_forms(operation: str, dtype: str) -> Iterator[Case]:
    for name, gradients in _list_forms(dtype).items():
        world = 4 if name.endswith("over-four") else WORLD
        for suffix, threshold in (("", 1.25), ("-not-clipped", 32.0)):
            if not suffix or name in ("split", "copied", "split-and-copied"):
                options = {**make_clipping_options(operation, threshold), "world": world}
                yield _make_case(operation, f"{name}{suffix}", dtype, gradients, options)


def _make_case(
    operation: str,
    name: str,
    dtype: str,
    gradients: Sequence[Gradient],
    options: Mapping[str, Any],
    expectation: Expect | None = None,
) -> Case:
    asked = {"world": WORLD, **options}
    return make_case(f"{operation}.shards-as-whole", name, dtype, gradients, asked, expectation or expect("values"))


def _split(
    values: Sequence[float], dtype: str, shape: tuple[int, ...] | None = None, axis: int = 0, *, need_clip: bool = True
) -> Gradient:
    return replace(make_tensor(values, dtype, shape, need_clip=need_clip), sharded=axis)


def _list_forms(dtype: str) -> dict[str, list[Gradient]]:
    """Return gradients whose norm is above 1.25, by the names of the cases. The norms of most are exact."""
    matrix = _split([2.0, -1.0, 0.5, 4.0, 2.0, 1.0, -2.0, 0.0], dtype, (4, 2))
    copied = make_tensor([3.0, -4.0], dtype)
    uneven = _split([2.0, -4.0, 4.0], dtype)
    return {
        "split": [matrix, _split([3.0, 4.0], dtype)],
        "copied": [copied, make_tensor([12.0, 0.0, 0.5], dtype, (3, 1))],
        "split-and-copied": [_split([12.0, 0.0], dtype), copied],
        "copied-and-split": [copied, matrix],
        "uneven": [uneven],
        "uneven-and-copied": [uneven, copied],
        "empty-part": [_split([3.0, 4.0], dtype, (1, 2)), matrix],
        "only-empty-part": [_split([3.0, -4.0], dtype, (1, 2))],
        "second-axis": [_split([2.0, 4.0, -4.0, 0.0], dtype, (2, 2), 1), copied],
        "uneven-second-axis": [_split([2.0, 1.0, -4.0, 4.0, 2.0, 0.5], dtype, (2, 3), 1)],
        "zeros-in-one-process": [_split([0.0, 0.0, 3.0, -4.0], dtype)],
        "copied-beside-none": [copied, make_tensor(None, dtype)],
        "copied-beside-excluded": [copied, replace(make_tensor([8.0, 16.0], dtype), need_clip=False)],
        "copied-over-four": [make_tensor([12.0, 0.0, 0.5], dtype, (3, 1)), copied],
        "none": [uneven, make_tensor(None, dtype), copied],
        "excluded-copy": [uneven, replace(make_tensor([8.0, 16.0], dtype), need_clip=False)],
        "excluded-split": [copied, _split([8.0, 16.0], dtype, need_clip=False), uneven],
        "split-over-four": [matrix, copied],
        "uneven-over-four": [_split([2.0, 4.0, -4.0, 1.0, 0.5, -2.0], dtype), copied],
    }


def _make_norm_cases(operation: str, dtype: str) -> Iterator[Case]:
    """Clip at the threshold, and by other norms. The largest element is in the last process."""
    three, four = _split([3.0, 0.0, 0.0, 4.0], dtype), make_tensor([12.0, 0.0], dtype)
    size = 13.0 if operation == "global-norm" else 12.0
    yield _make_case(operation, "at-threshold", dtype, [three, four], {"clip_norm": size})
    yield _make_case(operation, "zeros", dtype, [_split([0.0, 0.0, 0.0], dtype)], {"clip_norm": 1.0})
    for name, p in (("norm-one", 1.0), ("norm-infinity", math.inf), ("norm-three", 3.0)):
        for form, gradients in (
            ("", [_split([1.0, -2.0, 0.5, 8.0], dtype)]),
            ("-with-copy", [_split([1.0, -2.0, 0.5, 8.0], dtype), make_tensor([4.0, -1.0], dtype)]),
            ("-copied", [make_tensor([4.0, -8.0, 0.5], dtype)]),
            ("-empty-part", [_split([2.0, -4.0], dtype, (1, 2))]),
        ):
            options = {"clip_norm": 1.25, "norm_type": p}
            yield _make_case(operation, f"{name}{form}", dtype, gradients, options)


def _make_extreme_cases(operation: str, dtype: str) -> Iterator[Case]:
    """Put a NaN, an infinity, or a number whose square leaves the range, in one process only."""
    # If each gradient has a norm of its own, a finite gradient beside another is clipped by its own.
    beside = [make_tensor([4.0, -2.0], dtype)] if operation == "global-norm" else []
    for name, value in (("nan", math.nan), ("infinity", -math.inf)):
        for place, values in (("first", [value, 1.0, 2.0, 3.0]), ("last", [3.0, 1.0, 2.0, value])):
            some = [_split(values, dtype), *beside]
            yield _make_case(
                operation, f"{name}-in-{place}-process", dtype, some, {"clip_norm": 1.0}, expect("not-silent")
            )
        copied = [make_tensor([3.0, value], dtype), *beside]
        yield _make_case(operation, f"{name}-copied", dtype, copied, {"clip_norm": 1.0}, expect("not-silent"))
    for name, unit in (("huge", HUGE[dtype]), ("tiny", TINY[dtype])):
        # Their squares overflow, or underflow to zero.
        gradients = [_split([0.0, 0.0, 3 * unit, 4 * unit], dtype)]
        yield _make_case(
            operation, f"{name}-in-one-process", dtype, gradients, {"clip_norm": unit}, expect("values", wide=True)
        )
