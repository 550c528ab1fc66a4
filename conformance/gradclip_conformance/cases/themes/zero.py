"""Make cases of zeros: zero gradients, and thresholds of zero."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..build import DTYPES, NORM_OPERATIONS, OPERATIONS, make_case, make_clipping_options, make_tensor
from ..model import Case, expect

__all__ = ["make_cases"]


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        for operation in NORM_OPERATIONS:
            zeros, mixed = make_tensor([0.0, 0.0, -0.0], dtype), make_tensor([3.0, 4.0], dtype)
            rule = f"{operation}.zero-gradient"
            yield make_case(rule, "alone", dtype, [zeros], {"clip_norm": 1.0}, expect("values"))
            yield make_case(rule, "beside-others", dtype, [zeros, mixed], {"clip_norm": 1.0}, expect("values"))
            if dtype == "float32":
                for name, p in (("norm-one", 1.0), ("norm-three", 3.0), ("norm-infinity", math.inf)):
                    yield make_case(rule, name, dtype, [zeros], {"clip_norm": 1.0, "norm_type": p}, expect("values"))
            both = f"{operation}.zero-gradient-zero-threshold"
            yield make_case(both, "alone", dtype, [zeros], {"clip_norm": 0.0}, expect("values"))
            yield make_case(
                both, "two-tensors", dtype, [zeros, make_tensor([0.0], dtype)], {"clip_norm": 0.0}, expect("values")
            )
        for operation in OPERATIONS:
            options = make_clipping_options(operation, 0.0)
            everything = [make_tensor([3.0, -4.0, 0.0], dtype), make_tensor([0.5], dtype)]
            yield make_case(f"{operation}.zero-threshold", "two-tensors", dtype, everything, options, expect("values"))
            minus = make_clipping_options(operation, -0.0)
            yield make_case(
                f"{operation}.minus-zero-threshold", "two-tensors", dtype, everything, minus, expect("values")
            )
        yield make_case(
            "global-norm.zero-gradient",
            "returned-norm",
            dtype,
            [make_tensor([0.0, -0.0], dtype)],
            {"clip_norm": 1.0},
            expect("returned-norm"),
            ["returns_norm"],
        )
