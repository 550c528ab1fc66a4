"""Make cases of repeated calls, of several threads, and of effects on the gradients that were passed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gradclip_adapters.contract import Gradient

from .. import shards
from ..build import DTYPES, Maker, choose_orders, list_digits, list_makers, make_scattered_tensor, round_to_tensor
from ..model import Case, expect

#: A length that needs several vector instructions and does not fill the last vector.
COMPILED_LONG = 1003

#: The calls whose rounding a compiler may change. Other calls are made in one dtype only, because compilers are slow.
COMPILED_IN_EVERY_DTYPE = ("clipped", "long")
COMPILED_OTHERWISE_IN = "float32"


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        for make in list_makers(dtype):
            yield from _look_at_the_inputs(make)
            yield from _look_beside_the_results(make)
            yield from _repeat(make)
    for dtype in DTYPES:
        for make in list_makers(dtype):
            for variant, (gradients, threshold) in _list_calls_to_compile(make).items():
                # Each call is made twice: compiled by the framework, and not compiled.
                if variant in COMPILED_IN_EVERY_DTYPE or dtype == COMPILED_OTHERWISE_IN:
                    yield make.case("compiled-agrees", variant, gradients, threshold, expect("compiled-agrees"))
    yield from shards.make_cases()


def _repeat(make: Maker) -> Iterator[Case]:
    dtype, single = make.dtype, make.dtype == "float32"
    uneven = make.tensors([float(k) for k in range(-8, 9)], [0.5, 0.25, -3.0])
    yield make.case("repeatable", "twice", uneven, 2.0, expect("repeatable"))
    if single:
        # These gradients are so long that another thread can run before the call has ended.
        long = [make_scattered_tensor(length, dtype) for length in (2**14, 2**13)]
        one_excluded = [long[0], replace(long[1], need_clip=False)]
        orders = choose_orders("one", "three", "infinity") if make.operation.is_by_norm else {}
        yield from make.table(
            "threads-agree",
            ("eight", long, 2.0**-7),
            ("excluded", one_excluded, 2.0**-7),
            ("six-tensors", [make_scattered_tensor(64 + length, dtype) for length in range(6)], 2.0**-7),
            ("scalars", [make.tensor([value], ()) for value in (3.0, -4.0, 0.5)], 2.0),
            *((name, long, 1.0, {"norm_type": p}) for name, p in orders.items()),
            expectation=expect("repeatable", threads=8),
        )
        one_out = [uneven[0], replace(uneven[1], need_clip=False)]
        for variant, gradients in (("reused", uneven), ("reused-excluded", one_out)):
            yield make.case("repeatable", variant, gradients, 2.0, expect("repeatable", reused=True))


def _look_beside_the_results(make: Maker) -> Iterator[Case]:
    """Make cases about the memory of results, the state around the call, warnings, and a following call."""
    # A wrong function may mistake equal gradients for one gradient. A right function may return an excluded gradient
    # itself, without a copy.
    tensors = [*make.tensors([3.0, -4.0], [3.0, -4.0]), make.tensor([0.0, 0.0, 2.0, 0.0], (2, 2))]
    excluded = [*tensors, make.tensor([3.0, -4.0], need_clip=False)]
    kept, quiet = expect("surroundings-kept"), expect("no-warnings")
    for name, gradients, threshold in (
        ("clipped", tensors, 1.0),
        ("not-clipped", tensors, 32.0),
        ("excluded", excluded, 1.0),
    ):
        # NumPy warns of a quotient by a norm of 0, even of one that is not used.
        with_zeros = [*gradients, make.tensor([0.0, -0.0])]
        yield from make.rows(
            (f"results-independent/{name}", gradients, threshold, expect("no-shared-memory")),
            (f"results-survive/{name}", gradients, threshold, {"followed": True}),
            (f"no-warnings/{name}", with_zeros, threshold, quiet),
        )
        if make.dtype == "float32":
            yield make.case("surroundings-kept", name, gradients, threshold, kept)
    if make.dtype == "float32":
        yield make.case("surroundings-kept", "refused", tensors, -1.0, kept)
        if "error_if_nonfinite" in make.operation.parameters:
            nonfinite = [*tensors, make.tensor([math.nan, math.inf])]
            yield make.case("surroundings-kept", "nonfinite-refused", nonfinite, 1.0, kept, error_if_nonfinite=True)
    many = [make.tensor([(-1.0) ** k * (1 + k % 3)] * (1 + k % 5)) for k in range(40)]
    long = [round_to_tensor(np.resize([4.0, -1.0, 2.0], shape), make.dtype) for shape in ((500,), (24, 25))]
    rows: list[tuple[str, list[Gradient], float]] = [("many", many, 1.5), ("long", long, 1.5)]
    if make.dtype == "float32":
        wide, narrow = (replace(make, dtype=dtype).tensor([3.0, -4.0]) for dtype in ("float64", "float16"))
        rows.append(("mixed-dtypes", [*tensors, wide, narrow], 1.0))
    if make.dtype != "bfloat16":
        # In bfloat16, the results of so many elements have no error bound.
        yield from make.table("no-warnings", *rows, expectation=quiet)
    if make.operation.returns_norm:
        yield make.case("results-survive", "norm", tensors, 1.0, expect("returned-norm"), followed=True)


def _look_at_the_inputs(make: Maker) -> Iterator[Case]:
    """Pass gradients of every form, because for some forms a function may write into a copy by mistake."""
    dtype, values = make.dtype, [6.0, -2.0, 4.0, 8.0, -1.0, 0.0]
    two, beside, four = make.tensors([3.0, -4.0], [12.0]), make.tensor([3.0, -0.0]), make.tensor([-4.0])
    forms = {
        "alone": make.tensors([3.0, -4.0]),
        "scalars": [make.tensor([3.0], ()), make.tensor([-4.0], ())],
        "matrix": [make.tensor(values, (2, 3))],
        "strided": [make.tensor(values, (2, 3), layout="strided")],
        "transposed": [make.tensor(values, (2, 3), layout="transposed")],
        "reversed": [make.tensor(values, layout="reversed")],
        "three-dimensional": [make.tensor(values, (1, 3, 2))],
        "nonfinite": [make.tensor([3.0, math.nan, math.inf]), beside],
        "excluded": [beside, make.tensor([6.0, -0.0], need_clip=False), four],
    }
    if dtype in ("float32", "float64"):
        # In half precision the error bound of a long sum would hide a part that is not written.
        forms["long"] = [round_to_tensor(np.tile([4.0, -1.0, 2.0], 6701), dtype)]
    if dtype == "float32":
        forms["beside-none"] = [beside, make.tensor(None), four]
        forms["mixed-dtypes"] = [beside, replace(make, dtype="float64").tensor([4.0, -0.0])]
    rows = (
        ("clipped", two, 2.0),
        ("not-clipped", two, 32.0),
        ("threshold-zero", two, 0.0),
        *((name, gradients, 2.0) for name, gradients in forms.items()),
    )
    yield from make.table("inputs-not-mutated", *rows, expectation=expect("inputs-kept"))
    yield from make.table("in-place-written", *rows, expectation=expect("inputs-written"))


def _list_calls_to_compile(make: Maker) -> dict[str, tuple[list[Gradient], float]]:
    dtype = make.dtype
    digits, zeros = make.tensor(list_digits(dtype)), make.tensor([0.0, -0.0])
    excluded = make.tensor([math.nan, -math.inf, *list_digits(dtype)], need_clip=False)
    return {
        "clipped": ([digits, zeros], 1.25),
        "not-clipped": ([digits, zeros], 512.0),
        "long": ([make_scattered_tensor(COMPILED_LONG, dtype), digits], 2.0**-7),
        "nan": ([make.tensor([3.0, math.nan, 0.0]), digits], 1.25),
        "infinity": ([make.tensor([3.0, math.inf, -math.inf, 0.0]), digits], 1.25),
        "zeros": ([zeros, zeros], 1.25),
        "excluded": ([digits, excluded], 1.25),
        "none": ([make.tensor(None), digits], 1.25),
    }
