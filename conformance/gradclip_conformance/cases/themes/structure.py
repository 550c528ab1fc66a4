"""Make cases of form: gradients that are None, empty, zero-dimensional, strided, of mixed dtypes, or many."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ..build import DTYPES, NORM_OPERATIONS, OPERATIONS, make_case, make_clipping_options, make_tensor
from ..model import Case, expect

__all__ = ["make_cases"]

MANY = {"hundred": 100, "thousand": 1000}


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for operation in OPERATIONS:
        options = make_clipping_options(operation, 1.0)
        yield make_case(
            f"{operation}.empty-list", "nothing", "float32", [], options, expect("structure", aspect="count")
        )
        for dtype in DTYPES:
            yield from _ask_none(operation, dtype)
            yield from _ask_empty(operation, dtype)
            yield from _ask_shapes(operation, dtype)
            yield from _ask_layouts(operation, dtype)
            yield from _ask_lists(operation, dtype)
            yield from _ask_sparse(operation, dtype)
            yield from _ask_accepted(operation, dtype)
        yield from _mix_dtypes(operation)
    none_at_all = make_clipping_options("global-norm", 1.0)
    yield make_case(
        "global-norm.empty-list", "returned-norm", "float32", [], none_at_all, expect("returned-norm"), ["returns_norm"]
    )
    for operation in NORM_OPERATIONS:
        largest = {"clip_norm": 1.0, "norm_type": math.inf}
        yield make_case(
            f"{operation}.empty-list", "norm-infinity", "float32", [], largest, expect("structure", aspect="count")
        )


def _ask_none(operation: str, dtype: str) -> Iterator[Case]:
    options = make_clipping_options(operation, 1.0)
    nothing = make_tensor(None, dtype)
    among = [make_tensor([3.0], dtype), nothing, make_tensor([4.0], dtype)]
    yield make_case(
        f"{operation}.none-stays-none", "between", dtype, among, options, expect("structure", aspect="none")
    )
    yield make_case(
        f"{operation}.none-stays-none", "first", dtype, [nothing, *among], options, expect("structure", aspect="none")
    )
    in_a_row = [make_tensor([3.0], dtype), nothing, nothing, make_tensor([4.0], dtype)]
    if dtype == "float32":
        yield make_case(f"{operation}.none-stays-none", "two-in-a-row", dtype, in_a_row, options, expect("values"))
    if dtype == "float32" and operation == "norm":
        of_order = {**options, "norm_type": 1.0}
        yield make_case("norm.none-stays-none", "norm-one", dtype, among, of_order, expect("values"))
    if operation != "global-norm":
        only = [nothing, nothing]
        yield make_case(
            f"{operation}.none-stays-none", "only-none", dtype, only, options, expect("structure", aspect="none")
        )
    if operation == "global-norm":
        if dtype == "float32":
            for name, p in (("norm-one", 1.0), ("norm-infinity", math.inf)):
                of_order = {**options, "norm_type": p}
                yield make_case("global-norm.none-not-counted", name, dtype, among, of_order, expect("values"))
        yield make_case("global-norm.none-not-counted", "between", dtype, among, options, expect("values"))
        only = [make_tensor(None, dtype), make_tensor(None, dtype)]
        yield make_case(
            "global-norm.none-not-counted", "only-none", dtype, only, options, expect("structure", aspect="none")
        )


def _ask_empty(operation: str, dtype: str) -> Iterator[Case]:
    rule, options = f"{operation}.empty-tensor", make_clipping_options(operation, 1.0)
    yield make_case(rule, "alone", dtype, [make_tensor([], dtype)], options, expect("structure", aspect="shape"))
    empty, other = make_tensor([], dtype, (0, 2)), make_tensor([3.0, 4.0], dtype)
    yield make_case(rule, "beside-others", dtype, [empty, other], options, expect("values"))
    if dtype != "float32":
        return
    yield make_case(rule, "between-others", dtype, [other, empty, other], options, expect("values"))
    if operation != "value":
        # The maximum over an empty array is an error in many libraries.
        for name, p in (("norm-one", 1.0), ("norm-infinity", math.inf)):
            yield make_case(rule, name, dtype, [other, empty], {**options, "norm_type": p}, expect("values"))


def _ask_shapes(operation: str, dtype: str) -> Iterator[Case]:
    options, clipped_and_not = make_clipping_options(operation, 1.0), (("clipped", 1.0), ("not-clipped", 16.0))
    scalar = [make_tensor([3.0], dtype, ()), make_tensor([-4.0], dtype, ())]
    yield make_case(f"{operation}.zero-dimensional", "values", dtype, scalar, options, expect("values"))
    yield make_case(
        f"{operation}.zero-dimensional", "shape", dtype, scalar, options, expect("structure", aspect="shape")
    )
    yield make_case(
        f"{operation}.zero-dimensional", "dtype", dtype, scalar, options, expect("structure", aspect="dtype")
    )
    matrix = [make_tensor([1.0, -2.0, 3.0, -4.0, 5.0, -6.0], dtype, (2, 3)), make_tensor([2.0, 1.0, 2.0], dtype)]
    deep = [make_tensor([2.0, -4.0, 4.0, 0.0], dtype, (1, 2, 1, 2)), make_tensor([1.0], dtype, (1, 1))]
    for name, threshold in clipped_and_not:
        at = make_clipping_options(operation, threshold)
        yield make_case(
            f"{operation}.shape-kept", f"matrix-{name}", dtype, matrix, at, expect("structure", aspect="shape")
        )
        yield make_case(f"{operation}.shape-kept", f"deep-{name}", dtype, deep, at, expect("structure", aspect="shape"))
        yield make_case(f"{operation}.dtype-kept", name, dtype, matrix, at, expect("structure", aspect="dtype"))


def _ask_layouts(operation: str, dtype: str) -> Iterator[Case]:
    rule, options = f"{operation}.layout", make_clipping_options(operation, 1.0)
    values = [2.0, -4.0, 0.5, 0.0, 4.0, -0.5]
    for layout in ("strided", "transposed", "sliced", "reversed"):
        yield make_case(
            rule, layout, dtype, [make_tensor(values, dtype, (2, 3), layout=layout)], options, expect("values")
        )
    if dtype != "float32":
        return
    for layout in ("strided", "sliced", "reversed"):
        yield make_case(
            rule, f"{layout}-vector", dtype, [make_tensor(values, dtype, layout=layout)], options, expect("values")
        )
    for layout in ("strided", "transposed", "sliced", "reversed"):
        cube = [make_tensor([*values, *reversed(values)], dtype, (2, 3, 2), layout=layout)]
        yield make_case(rule, f"{layout}-three-dimensional", dtype, cube, options, expect("values"))
    # A broadcast array cannot be written, so only subjects that do not write in place get one.
    rows = [make_tensor(values[:3] * 2, dtype, (2, 3), layout="broadcast")]
    yield make_case(rule, "broadcast", dtype, rows, options, expect("values"), ["functional"])


def _ask_lists(operation: str, dtype: str) -> Iterator[Case]:
    options = make_clipping_options(operation, 3.0)
    ordered = [make_tensor([8.0], dtype), make_tensor([-1.0], dtype), make_tensor([4.0, 0.0], dtype)]
    yield make_case(f"{operation}.order-kept", "three-tensors", dtype, ordered, options, expect("values"))
    thirty = [make_tensor([(-1.0) ** k * (k + 1)] * (1 + k % 3), dtype) for k in range(30)]
    thirty_options = make_clipping_options(operation, 24.0)
    yield make_case(f"{operation}.order-kept", "thirty-tensors", dtype, thirty, thirty_options, expect("values"))
    # The squares are 1, 4 and 4: each tensor has the norm 3, and `count` tensors have 3 sqrt(count).
    for name, count in MANY.items():
        if count > 100 and dtype != "float32":
            continue
        # In bfloat16 a sum over a hundred elements has an error bound. A sum over three hundred has none.
        many = [make_tensor([-3.0] if dtype == "bfloat16" else [1.0, -2.0, 2.0], dtype)] * count
        yield make_case(
            f"{operation}.many-tensors", name, dtype, many, make_clipping_options(operation, 1.5), expect("values")
        )
    twice = [make_tensor([3.0], dtype), make_tensor([3.0], dtype, same_as=0)]
    if operation != "value":
        written, needs = expect("scaled-once"), ["in_place"]
        rule = f"{operation}.repeated-tensor-in-place"
        yield make_case(rule, "same-object", dtype, twice, {"clip_norm": 1.0}, written, needs)
        beside = [make_tensor([4.0, 2.0], dtype), *[replace(one, same_as=one.same_as and 1) for one in twice]]
        beside[2] = replace(twice[1], same_as=1)
        yield make_case(rule, "beside-another", dtype, beside, {"clip_norm": 1.0}, written, needs)
    yield make_case(
        f"{operation}.repeated-tensor",
        "same-object",
        dtype,
        twice,
        make_clipping_options(operation, 1.0),
        expect("recorded"),
    )


def _ask_accepted(operation: str, dtype: str) -> Iterator[Case]:
    rule, options = f"{operation}.dtype-accepted", make_clipping_options(operation, 1.0)
    matrix, vector = make_tensor([2.0, -1.0, 0.0, 2.0], dtype, (2, 2)), make_tensor([4.0], dtype)
    form = expect("structure", aspect="dtype")
    yield make_case(rule, "alone", dtype, [matrix], options, form)
    yield make_case(rule, "two-tensors", dtype, [matrix, vector], options, form)
    rows = replace(matrix, rows=(1, 3), height=4)
    yield make_case(rule, "rows-beside-dense", dtype, [rows, vector], options, form, ["sparse"])


def _ask_sparse(operation: str, dtype: str) -> Iterator[Case]:
    options = make_clipping_options(operation, 1.0)
    # Rows 1 and 3 of four have the norm 3. Together with the other tensor, the norm is 5.
    values, beside = make_tensor([2.0, -1.0, 0.0, 2.0], dtype, (2, 2)), make_tensor([4.0], dtype)
    once, twice = (replace(values, rows=rows, height=4) for rows in ((1, 3), (2, 2)))
    yield make_case(
        f"{operation}.sparse-rows", "two-of-four", dtype, [once, beside], options, expect("values"), ["sparse"]
    )
    rule = f"{operation}.sparse-duplicate-rows"
    yield make_case(rule, "one-row-twice", dtype, [twice, beside], options, expect("sparse-sum"), ["sparse"])
    yield make_case(
        rule,
        "not-clipped",
        dtype,
        [twice, beside],
        make_clipping_options(operation, 16.0),
        expect("sparse-sum"),
        ["sparse"],
    )
    # The stored rows cancel each other, so the dense gradient is zero in this row.
    cancelled = replace(make_tensor([8.0, -8.0, -8.0, 8.0], dtype, (2, 2)), rows=(2, 2), height=4)
    yield make_case(rule, "cancelled", dtype, [cancelled, beside], options, expect("sparse-sum"), ["sparse"])
    rule = f"{operation}.sparse-rows"
    yield make_case(
        rule, "dense-first", dtype, [beside, once, replace(once, rows=(0, 2))], options, expect("values"), ["sparse"]
    )


def _mix_dtypes(operation: str) -> Iterator[Case]:
    rule, options = f"{operation}.mixed-dtypes", make_clipping_options(operation, 1.0)
    for first, second in (
        ("float16", "float32"),
        ("bfloat16", "float32"),
        ("float32", "float64"),
        ("float64", "float32"),
        ("float64", "float16"),
    ):
        mixed, name = [make_tensor([3.0], first), make_tensor([4.0], second)], f"{first}+{second}"
        yield make_case(rule, "values", name, mixed, options, expect("values"))
        yield make_case(rule, "dtypes", name, mixed, options, expect("structure", aspect="dtype"))
    three = [make_tensor([2.0], "float16"), make_tensor([-4.0], "float32"), make_tensor([4.0], "float64")]
    yield make_case(rule, "values", "float16+float32+float64", three, options, expect("values"))
    if operation == "global-norm":
        returned = ["returns_norm"]
        yield make_case(
            rule, "returned-norm", "float16+float32+float64", three, options, expect("returned-norm"), returned
        )
        # The norm is beyond the range of the first dtype, and within the range of the second dtype.
        for first, second, large, threshold in (
            ("float16", "float32", 2.0**20, 2.0**15),
            ("float32", "float64", 2.0**200, 2.0**100),
        ):
            small, beyond = make_tensor([3.0, -4.0], first), make_tensor([large], second)
            name, at = f"{first}+{second}", {"clip_norm": threshold}
            yield make_case(rule, "beyond-the-first", name, [small, beyond], at, expect("values"))
            yield make_case(rule, "beyond-the-last", name, [beyond, small], at, expect("values"))
