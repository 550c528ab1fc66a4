"""Make cases of invalid thresholds, of integer thresholds, and of gradients that are not passed as a list."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradclip_adapters.contract import Gradient

from ..build import DTYPES, NORM_OPERATIONS, ORDERS, Maker, list_makers
from ..model import Case, expect

REFUSED = expect("refused")
RECORDED = expect("recorded")


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        for make in list_makers(dtype, NORM_OPERATIONS):
            yield from _make_invalid_norms(make)
        for make in list_makers(dtype, ["value"]):
            yield from _make_invalid_bounds(make)
        for make in list_makers(dtype, ["value", "global-norm"]):
            yield from _pass_no_list(make)
        for make in list_makers(dtype):
            uneven = make.tensors([2.5], [-1.5], [4.0, 0.25])
            yield from _make_integer_thresholds(make, uneven)
            yield from _make_thresholds_of_other_kinds(make, uneven)
            yield from _make_tensor_thresholds(make, uneven)


def _make_invalid_norms(make: Maker) -> Iterator[Case]:
    tensors = make.tensors([3.0], [-4.0])
    # The order matters where a function looks at the threshold. The dtype does not.
    orders = ORDERS if make.dtype == "float32" else {}
    yield from make.table(
        "negative-threshold-refused",
        ("minus-one", tensors, -1.0),
        # No result shows a sign error here, because the threshold is tiny or the gradient is zero.
        ("minus-little", tensors, -(2.0**-10)),
        ("zero-gradient", make.tensor([0.0, 0.0]), -1.0),
        ("minus-infinity", tensors, -math.inf),
        ("minus-one-as-integer", tensors, -1),
        *((f"minus-one-norm-{name}", tensors, -1.0, {"norm_type": p}) for name, p in orders.items()),
        expectation=REFUSED,
    )
    yield from make.refused_scalar(tensors)
    yield make.case("nan-threshold", "nan", tensors, math.nan, RECORDED)


def _make_invalid_bounds(make: Maker) -> Iterator[Case]:
    tensors = make.tensors([3.0], [-4.0])
    yield from make.rows(
        ("min-above-max/swapped", tensors, -1.0, {"min": 1.0}),
        ("min-above-max/negative-max-only", tensors, -1.0),
        ("nan-threshold/nan", tensors, math.nan),
        expectation=RECORDED,
    )


def _pass_no_list(make: Maker) -> Iterator[Case]:
    ordered, values = make.tensors([8.0], [-1.0], [4.0, 0.0]), [2.0, -4.0, 0.5, 0.0, 4.0, -0.5]
    yield make.case("any-iterable", "generator", ordered, 3.0, as_generator=True)
    single = {"as_single": True}
    yield from make.table(
        "single-tensor",
        ("vector", make.tensor(values), 3.0, single),
        ("matrix", make.tensor(values, (2, 3)), 3.0, single),
        ("scalar", make.tensor([-4.0], ()), 3.0, single),
    )


def _make_integer_thresholds(make: Maker, gradients: list[Gradient]) -> Iterator[Case]:
    rule = "integer-threshold"
    yield from make.table(rule, ("clipped", gradients, 2), ("not-clipped", gradients, 32))
    if not make.operation.is_by_norm:
        yield make.case(rule, "min-and-max", gradients, 2, min=-1)
    if make.dtype == "float32":
        # In 64 bits, the square of this threshold is 0.
        yield make.case(rule, "beyond-32-bits-below", gradients, 2**32)
    if make.dtype != "float16":
        # These thresholds do not fit into 32 bits.
        large = make.tensor([3 * 2.0**31, -4 * 2.0**31])
        yield make.case(rule, "beyond-32-bits", large, 5 * 2**30 if make.operation.is_by_norm else 2**32)
        larger = make.tensor([3 * 2.0**65, -4 * 2.0**65])
        yield make.case(rule, "beyond-64-bits", larger, 5 * 2**64 if make.operation.is_by_norm else 2**66)


def _make_tensor_thresholds(make: Maker, gradients: list[Gradient]) -> Iterator[Case]:
    as_tensor = {"tensor_threshold": True}
    yield from make.table(
        "tensor-threshold",
        ("clipped", gradients, 2.0, as_tensor),
        ("not-clipped", gradients, 32.0, as_tensor),
        ("zero", gradients, 0.0, as_tensor),
        *([] if make.operation.is_by_norm else [("min-and-max", gradients, 2.0, {"min": -1.0, **as_tensor})]),
    )


def _make_thresholds_of_other_kinds(make: Maker, gradients: list[Gradient]) -> Iterator[Case]:
    # By NumPy's promotion rules, a wider scalar gives a wider result.
    if make.dtype != "bfloat16":
        kind = f"numpy-{make.dtype}"
        yield make.case("numpy-threshold", "same-dtype", gradients, 2.0, threshold_as=kind)
        yield from make.large_scalars(make.tensors([720.0], [-960.0]))
    if make.dtype != "float32":
        return
    for kind in ("numpy-float64", "array", "array-of-one", "text", "bool"):
        yield make.case("unusual-threshold", kind, gradients, 2.0, RECORDED, threshold_as=kind)
    if make.operation.is_by_norm:
        yield from make.table(
            "norm-type-not-positive",
            ("zero", gradients, 2.0, {"norm_type": 0.0}),
            ("minus-one", gradients, 2.0, {"norm_type": -1.0}),
            ("minus-infinity", gradients, 2.0, {"norm_type": -math.inf}),
            expectation=RECORDED,
        )
