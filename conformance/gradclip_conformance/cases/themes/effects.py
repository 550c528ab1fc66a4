"""Make cases of repeated calls, of several threads, and of effects on the gradients that were passed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gradclip_adapters.contract import Gradient

from .. import shards
from ..build import (
    DTYPES,
    OPERATIONS,
    list_digits,
    make_case,
    make_clipping_options,
    make_scattered_tensor,
    make_tensor,
    round_to_tensor,
)
from ..model import Case, expect

__all__ = ["make_cases"]

#: A length that needs several vector instructions and does not fill the last vector.
COMPILED_LONG = 1003

#: The calls whose rounding a compiler may change. Other calls are made in one dtype only, because compilers are slow.
COMPILED_IN_EVERY_DTYPE = ("clipped", "long")
COMPILED_OTHERWISE_IN = "float32"


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        for operation in OPERATIONS:
            tensors = [make_tensor([3.0, -4.0], dtype), make_tensor([12.0], dtype)]
            for name, threshold in (("clipped", 2.0), ("not-clipped", 32.0), ("threshold-zero", 0.0)):
                options = make_clipping_options(operation, threshold)
                yield make_case(
                    f"{operation}.inputs-not-mutated",
                    name,
                    dtype,
                    tensors,
                    options,
                    expect("inputs-kept"),
                    ["functional"],
                )
                yield make_case(
                    f"{operation}.in-place-written",
                    name,
                    dtype,
                    tensors,
                    options,
                    expect("inputs-written"),
                    ["in_place"],
                )
            yield from _pass_every_form(operation, dtype)
            yield from _look_beside_the_results(operation, dtype)
            options = options_of_two = make_clipping_options(operation, 2.0)
            uneven = [make_tensor([float(k) for k in range(-8, 9)], dtype), make_tensor([0.5, 0.25, -3.0], dtype)]
            yield make_case(f"{operation}.repeatable", "twice", dtype, uneven, options, expect("repeatable"))
            # These gradients are so long that another thread can run before the call has ended.
            long = [make_scattered_tensor(length, dtype) for length in (2**14, 2**13)]
            options = make_clipping_options(operation, 2.0**-7)
            agree = f"{operation}.threads-agree"
            yield make_case(agree, "eight", dtype, long, options, expect("repeatable", threads=8), ["threads"])
            if dtype == "float32":
                one_excluded = [long[0], replace(long[1], need_clip=False)]
                yield make_case(
                    agree, "excluded", dtype, one_excluded, options, expect("repeatable", threads=8), ["threads"]
                )
                if operation != "value":
                    of_order = {"clip_norm": 1.0, "norm_type": 1.0}
                    yield make_case(
                        agree, "norm-one", dtype, long, of_order, expect("repeatable", threads=8), ["threads"]
                    )
                again = expect("repeatable", reused=True)
                yield make_case(f"{operation}.repeatable", "reused", dtype, uneven, options_of_two, again, ["reuses"])
    yield from _make_compiled()
    yield from shards.make_cases()


def _look_beside_the_results(operation: str, dtype: str) -> Iterator[Case]:
    """Make cases about the memory of results, the state around the call, warnings, and a following call."""
    # A wrong function may mistake equal gradients for one gradient. A right function may return an excluded gradient
    # itself, without a copy.
    tensors = [
        make_tensor([3.0, -4.0], dtype),
        make_tensor([3.0, -4.0], dtype),
        make_tensor([0.0, 0.0, 2.0, 0.0], dtype, (2, 2)),
    ]
    excluded = [*tensors, make_tensor([3.0, -4.0], dtype, need_clip=False)]
    for name, gradients, threshold in (
        ("clipped", tensors, 1.0),
        ("not-clipped", tensors, 32.0),
        ("excluded", excluded, 1.0),
    ):
        options = make_clipping_options(operation, threshold)
        yield make_case(f"{operation}.results-independent", name, dtype, gradients, options, expect("no-shared-memory"))
        followed, needs = {**options, "followed": True}, ["follows"]
        yield make_case(f"{operation}.results-survive", name, dtype, gradients, followed, expect("values"), needs)
        if dtype == "float32":
            yield make_case(
                f"{operation}.surroundings-kept", name, dtype, gradients, options, expect("surroundings-kept")
            )
            yield make_case(f"{operation}.no-warnings", name, dtype, gradients, options, expect("no-warnings"))
    if operation == "global-norm":
        returned = {"clip_norm": 1.0, "followed": True}
        needs = ["follows", "returns_norm"]
        yield make_case("global-norm.results-survive", "norm", dtype, tensors, returned, expect("returned-norm"), needs)


def _pass_every_form(operation: str, dtype: str) -> Iterator[Case]:
    """Pass gradients of every form, because for some forms a function may write into a copy by mistake."""
    options = make_clipping_options(operation, 2.0)
    values = [6.0, -2.0, 4.0, 8.0, -1.0, 0.0]
    # In half precision the error bound of a long sum would hide a part that is not written.
    long = [round_to_tensor(np.tile([4.0, -1.0, 2.0], 6701), dtype)] if dtype in ("float32", "float64") else []
    single, beside = dtype == "float32", make_tensor([3.0, -0.0], dtype)
    excluded = make_tensor([6.0, -0.0], dtype, need_clip=False)
    other = "float32" if dtype == "float64" else "float64"
    for name, tensors in (
        ("alone", [make_tensor([3.0, -4.0], dtype)]),
        ("scalars", [make_tensor([3.0], dtype, ()), make_tensor([-4.0], dtype, ())]),
        ("matrix", [make_tensor(values, dtype, (2, 3))]),
        ("strided", [make_tensor(values, dtype, (2, 3), layout="strided")]),
        ("transposed", [make_tensor(values, dtype, (2, 3), layout="transposed")]),
        ("reversed", [make_tensor(values, dtype, layout="reversed")]),
        ("three-dimensional", [make_tensor(values, dtype, (1, 3, 2))]),
        ("long", long),
        ("nonfinite", [make_tensor([3.0, math.nan, math.inf], dtype), beside]),
        ("excluded", [beside, excluded, make_tensor([-4.0], dtype)]),
        ("beside-none", [beside, make_tensor(None, dtype), make_tensor([-4.0], dtype)] if single else []),
        ("mixed-dtypes", [beside, make_tensor([4.0, -0.0], other)] if single else []),
    ):
        if tensors:
            kept, written = f"{operation}.inputs-not-mutated", f"{operation}.in-place-written"
            yield make_case(kept, name, dtype, tensors, options, expect("inputs-kept"), ["functional"])
            yield make_case(written, name, dtype, tensors, options, expect("inputs-written"), ["in_place"])


def _make_compiled() -> Iterator[Case]:
    """Yield calls that are each made twice: compiled by the framework, and not compiled."""
    for dtype in DTYPES:
        for operation in OPERATIONS:
            for variant, (gradients, threshold) in _list_calls_to_compile(dtype).items():
                if variant not in COMPILED_IN_EVERY_DTYPE and dtype != COMPILED_OTHERWISE_IN:
                    continue
                options = make_clipping_options(operation, threshold)
                yield make_case(
                    f"{operation}.compiled-agrees",
                    variant,
                    dtype,
                    gradients,
                    options,
                    expect("compiled-agrees"),
                    ["compiles"],
                )


def _list_calls_to_compile(dtype: str) -> dict[str, tuple[list[Gradient], float]]:
    digits, zeros = make_tensor(list_digits(dtype), dtype), make_tensor([0.0, -0.0], dtype)
    excluded = make_tensor([math.nan, -math.inf, *list_digits(dtype)], dtype, need_clip=False)
    return {
        "clipped": ([digits, zeros], 1.25),
        "not-clipped": ([digits, zeros], 512.0),
        "long": ([make_scattered_tensor(COMPILED_LONG, dtype), digits], 2.0**-7),
        "nan": ([make_tensor([3.0, math.nan, 0.0], dtype), digits], 1.25),
        "infinity": ([make_tensor([3.0, math.inf, -math.inf, 0.0], dtype), digits], 1.25),
        "zeros": ([zeros, zeros], 1.25),
        "excluded": ([digits, excluded], 1.25),
        "none": ([make_tensor(None, dtype), digits], 1.25),
    }
