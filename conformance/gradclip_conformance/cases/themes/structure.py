"""Make cases of form: gradients that are None, empty, zero-dimensional, strided, of mixed dtypes, or many."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from gradclip_adapters.operations import PREFIXES

from ..build import (
    DTYPES,
    NORM_OPERATIONS,
    Maker,
    choose_orders,
    list_makers,
    make_long,
    make_tensor,
)
from ..model import Case, expect

COUNT, NONE, SHAPE, DTYPE = (expect("structure", aspect=aspect) for aspect in ("count", "none", "shape", "dtype"))
RETURNED = expect("returned-norm")

#: Orders of the norm for which an implementation may treat an empty list or a None in another way.
NORM_TYPES = choose_orders("one", "infinity")


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for make in list_makers("float32", PREFIXES):
        # An empty list says nothing about the number of examples, so no clip per example gets one.
        if make.operation.sums_examples:
            continue
        yield make.case("empty-list", "nothing", [], 1.0, COUNT)
    for dtype in DTYPES:
        for make in list_makers(dtype):
            yield from _ask_none(make)
            yield from _ask_empty(make)
            yield from _ask_shapes(make)
            yield from _ask_layouts(make)
            yield from _ask_lists(make)
            yield from _ask_sparse(make)
            yield from _ask_accepted(make)
    for make in list_makers("float32", PREFIXES):
        # A unit has one dtype, so the cases of units mix the dtypes of tensors themselves.
        if not make.operation.divides_gradients:
            yield from _mix_dtypes(make)
    for make in list_makers("float32", NORM_OPERATIONS):
        if make.operation.returns_norm:
            yield make.case("empty-list", "returned-norm", [], 1.0, RETURNED)
        yield make.case("empty-list", "norm-infinity", [], 1.0, COUNT, norm_type=math.inf)


def _ask_none(make: Maker) -> Iterator[Case]:
    rule, single = "none-stays-none", make.dtype == "float32"
    among, only = make.tensors([3.0], None, [4.0]), make.tensors(None, None)
    yield from make.table(rule, ("between", among, 1.0, NONE), ("first", [make.tensor(None), *among], 1.0, NONE))
    if single:
        yield make.case(rule, "two-in-a-row", make.tensors([3.0], None, None, [4.0]), 1.0)
    if not make.operation.is_global:
        if single and make.operation.is_by_norm:
            yield make.case(rule, "norm-one", among, 1.0, norm_type=1.0)
        yield make.case(rule, "only-none", only, 1.0, NONE)
        return
    norm_types = NORM_TYPES if single else {}
    yield from make.table(
        "none-not-counted",
        *((name, among, 1.0, {"norm_type": p}) for name, p in norm_types.items()),
        ("between", among, 1.0),
        ("only-none", only, 1.0, NONE),
    )


def _ask_empty(make: Maker) -> Iterator[Case]:
    rule, empty, other = "empty-tensor", make.tensor([], (0, 2)), make.tensor([3.0, 4.0])
    # A function that flattens all axes but the first, or all but the last, may not know the other size.
    every = [empty, make.tensor([], (2, 0)), make.tensor([], (0, 2, 3))]
    yield from make.table(rule, ("alone", make.tensor([]), 1.0, SHAPE), ("beside-others", [*every, other], 1.0))
    if make.dtype == "float32":
        # The maximum over an empty array is an error in many libraries.
        norm_types = NORM_TYPES if make.operation.is_by_norm else {}
        yield from make.table(
            rule,
            ("between-others", [other, empty, other], 1.0),
            *((name, [other, empty], 1.0, {"norm_type": p}) for name, p in norm_types.items()),
        )


def _ask_shapes(make: Maker) -> Iterator[Case]:
    scalars = [make.tensor([3.0], ()), make.tensor([-4.0], ())]
    yield from make.table(
        "zero-dimensional", ("values", scalars, 1.0), ("shape", scalars, 1.0, SHAPE), ("dtype", scalars, 1.0, DTYPE)
    )
    matrix = [make.tensor([1.0, -2.0, 3.0, -4.0, 5.0, -6.0], (2, 3)), make.tensor([2.0, 1.0, 2.0])]
    deep = [make.tensor([2.0, -4.0, 4.0, 0.0], (1, 2, 1, 2)), make.tensor([1.0], (1, 1))]
    for name, threshold in (("clipped", 1.0), ("not-clipped", 16.0)):
        yield from make.rows(
            (f"shape-kept/matrix-{name}", matrix, threshold, SHAPE),
            (f"shape-kept/deep-{name}", deep, threshold, SHAPE),
            (f"dtype-kept/{name}", matrix, threshold, DTYPE),
        )


def _ask_layouts(make: Maker) -> Iterator[Case]:
    values = [2.0, -4.0, 0.5, 0.0, 4.0, -0.5]
    layouts, rule = ("strided", "transposed", "sliced", "reversed"), "layout"
    yield from make.table(rule, *((name, make.tensor(values, (2, 3), layout=name), 1.0) for name in layouts))
    if make.dtype != "float32":
        return
    twelve, columns = [*values, *reversed(values)], [2.0, 2.0, 2.0, -4.0, -4.0, -4.0]
    yield from make.table(
        rule,
        *((f"{name}-vector", make.tensor(values, layout=name), 1.0) for name in layouts if name != "transposed"),
        *((f"{name}-three-dimensional", make.tensor(twelve, (2, 3, 2), layout=name), 1.0) for name in layouts),
        # These cannot be written, so entry points that write in place do not declare the feature.
        ("broadcast", make.tensor(values[:3] * 2, (2, 3), layout="broadcast"), 1.0),
        ("broadcast-columns", make.tensor(columns, (2, 3), layout="broadcast"), 1.0),
    )


def _ask_lists(make: Maker) -> Iterator[Case]:
    thirty = [make.tensor([(-1.0) ** k * (k + 1)] * (1 + k % 3)) for k in range(30)]
    yield make.case("order-kept", "three-tensors", make.tensors([8.0], [-1.0], [4.0, 0.0]), 3.0)
    yield make.case("order-kept", "thirty-tensors", thirty, 24.0)
    # The squares are 1, 4 and 4: each tensor has the norm 3, and `count` tensors have 3 sqrt(count). In bfloat16 a sum
    # over a hundred elements has an error bound. A sum over three hundred has none.
    few = make.tensor([-3.0] if make.dtype == "bfloat16" else [1.0, -2.0, 2.0])
    rule = "many-tensors"
    yield make.case(rule, "hundred", [few] * 100, 1.5)
    if make.dtype == "float32":
        # Kernels for lists cut long tensors into pieces, and copy those with gaps. Here a launch of such a kernel holds
        # neither all tensors nor all pieces, and no length of a piece divides the numbers of elements.
        kind = "edges" if make.operation.is_by_norm else "alternating"
        transposed = make_long(kind, (519, 509), "transposed")
        sliced = make_long(kind, (3, 211, 209), "sliced")
        yield from make.table(
            rule,
            ("thousand", [few] * 1000, 1.5),
            ("long-after-a-thousand", [*[few] * 1025, transposed, sliced], 1.5),
        )
        if make.operation.is_global:
            # Each tensor has an odd number of elements, so the last one of each is alone in a vector of two.
            yield make.case(rule, "thousand-norm-infinity", [few] * 1001, 1.5, norm_type=math.inf)
    three = make.tensor([3.0])
    twice = [three, replace(three, same_as=0)]
    if make.operation.is_by_norm:
        beside = [make.tensor([4.0, 2.0]), three, replace(three, same_as=1)]
        yield from make.table(
            "repeated-tensor-in-place",
            ("same-object", twice, 1.0),
            ("beside-another", beside, 1.0),
            expectation=expect("scaled-once"),
        )
    yield make.case("repeated-tensor", "same-object", twice, 1.0, expect("recorded"))


def _ask_accepted(make: Maker) -> Iterator[Case]:
    matrix, vector = make.tensor([2.0, -1.0, 0.0, 2.0], (2, 2)), make.tensor([4.0])
    rows = replace(matrix, rows=(1, 3), height=4)
    yield from make.table(
        "dtype-accepted",
        ("alone", matrix, 1.0),
        ("two-tensors", [matrix, vector], 1.0),
        ("rows-beside-dense", [rows, vector], 1.0),
        expectation=DTYPE,
    )


def _ask_sparse(make: Maker) -> Iterator[Case]:
    # Rows 1 and 3 of four have the norm 3. Together with the other tensor, the norm is 5.
    values, beside = make.tensor([2.0, -1.0, 0.0, 2.0], (2, 2)), make.tensor([4.0])
    once, other, twice = (replace(values, rows=rows, height=4) for rows in ((1, 3), (0, 2), (2, 2)))
    # The stored rows cancel each other, so the dense gradient is zero in this row.
    cancelled = replace(make.tensor([8.0, -8.0, -8.0, 8.0], (2, 2)), rows=(2, 2), height=4)
    yield from make.table(
        "sparse-rows",
        ("two-of-four", [once, beside], 1.0),
        ("dense-first", [beside, once, other], 1.0),
    )
    yield from make.table(
        "sparse-duplicate-rows",
        ("one-row-twice", [twice, beside], 1.0),
        ("not-clipped", [twice, beside], 16.0),
        ("cancelled", [cancelled, beside], 1.0),
        expectation=expect("sparse-sum"),
    )


def _mix_dtypes(make: Maker) -> Iterator[Case]:
    rule = "mixed-dtypes"
    for first, second in (
        ("float16", "float32"),
        ("bfloat16", "float32"),
        ("float32", "float64"),
        ("float64", "float32"),
        ("float64", "float16"),
    ):
        mixed = [make_tensor([3.0], first), make_tensor([4.0], second)]
        yield from _join(make, first, second).table(rule, ("values", mixed, 1.0), ("dtypes", mixed, 1.0, DTYPE))
    # In float16, this threshold would be infinite, and the coefficient would be wrong by 25 %.
    wide = make_tensor([0.0, -0.0], "float16"), make_tensor([3 * 2.0**40, -4 * 2.0**40], "float32")
    make_two, make_three = _join(make, "float16", "float32"), _join(make, "float16", "float32", "float64")
    yield make_two.case(rule, "threshold-beyond-the-first", wide, 2.0**18)
    five = [
        make_tensor([3.0, -4.0, 0.0, 0.0], dtype) for dtype in ("float32", "float64", "float16", "float32", "float64")
    ]
    yield from _join(make, "float32", "float64", "float16").table(
        rule, ("five-tensors", five, 1.0), ("five-tensors-dtypes", five, 1.0, DTYPE)
    )
    three = [make_tensor([2.0], "float16"), make_tensor([-4.0], "float32"), make_tensor([4.0], "float64")]
    yield make_three.case(rule, "values", three, 1.0)
    if not make.operation.is_global:
        return
    yield make_three.case(rule, "returned-norm", three, 1.0, RETURNED)
    yield make_two.case(rule, "returned-norm-beyond-the-first", wide, 2.0**15, RETURNED)
    # The norm is beyond the range of the first dtype, and within the range of the second dtype.
    for first, second, large, threshold in (
        ("float16", "float32", 2.0**20, 2.0**15),
        ("float32", "float64", 2.0**200, 2.0**100),
    ):
        small, beyond = make_tensor([3.0, -4.0], first), make_tensor([large], second)
        yield from _join(make, first, second).table(
            rule,
            ("beyond-the-first", [small, beyond], threshold),
            ("beyond-the-last", [beyond, small], threshold),
        )


def _join(make: Maker, *dtypes: str) -> Maker:
    """Return the maker of cases whose gradients have these dtypes."""
    return replace(make, dtype="+".join(dtypes))
