"""Make cases of zeros: zero gradients, and thresholds of zero."""

from __future__ import annotations

from collections.abc import Iterator

from ..build import DTYPES, NORM_OPERATIONS, choose_orders, list_makers
from ..model import Case, expect


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        for make in list_makers(dtype, NORM_OPERATIONS):
            zeros, triangle, other = make.tensors([0.0, 0.0, -0.0], [3.0, 4.0], [0.0])
            rule = "zero-gradient"
            orders = choose_orders("one", "three", "infinity") if dtype == "float32" else {}
            yield from make.table(
                rule,
                ("alone", zeros, 1.0),
                ("beside-others", [zeros, triangle], 1.0),
                *((name, zeros, 1.0, {"norm_type": p}) for name, p in orders.items()),
            )
            both = "zero-gradient-zero-threshold"
            yield from make.table(both, ("alone", zeros, 0.0), ("two-tensors", [zeros, other], 0.0))
            if make.operation.returns_norm:
                some = make.tensor([0.0, -0.0])
                yield make.case(rule, "returned-norm", some, 1.0, expect("returned-norm"))
        for make in list_makers(dtype):
            two = make.tensors([3.0, -4.0, 0.0], [0.5])
            yield make.case("zero-threshold", "two-tensors", two, 0.0)
            yield make.case("minus-zero-threshold", "two-tensors", two, -0.0)
