"""Make cases of zeros: zero gradients, and thresholds of zero."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..build import DTYPES, NORM_OPERATIONS, OPERATIONS, case, clipping_options, tensor
from ..model import Case, expect

__all__ = ["cases"]


def cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        for operation in NORM_OPERATIONS:
            zeros, mixed = tensor([0.0, 0.0, -0.0], dtype), tensor([3.0, 4.0], dtype)
            rule = f"{operation}.zero-gradient"
            yield case(rule, "alone", dtype, [zeros], {"clip_norm": 1.0}, expect("values"))
            yield case(rule, "beside-others", dtype, [zeros, mixed], {"clip_norm": 1.0}, expect("values"))
            if dtype == "float32":
                for name, p in (("norm-one", 1.0), ("norm-three", 3.0), ("norm-infinity", math.inf)):
                    yield case(rule, name, dtype, [zeros], {"clip_norm": 1.0, "norm_type": p}, expect("values"))
            both = f"{operation}.zero-gradient-zero-threshold"
            yield case(both, "alone", dtype, [zeros], {"clip_norm": 0.0}, expect("values"))
            yield case(both, "two-tensors", dtype, [zeros, tensor([0.0], dtype)], {"clip_norm": 0.0}, expect("values"))
        for operation in OPERATIONS:
            options = clipping_options(operation, 0.0)
            everything = [tensor([3.0, -4.0, 0.0], dtype), tensor([0.5], dtype)]
            yield case(f"{operation}.zero-threshold", "two-tensors", dtype, everything, options, expect("values"))
            minus = clipping_options(operation, -0.0)
            yield case(f"{operation}.minus-zero-threshold", "two-tensors", dtype, everything, minus, expect("values"))
        yield case(
            "global-norm.zero-gradient",
            "returned-norm",
            dtype,
            [tensor([0.0, -0.0], dtype)],
            {"clip_norm": 1.0},
            expect("returned-norm"),
            ["returns_norm"],
        )
