"""Make cases of accuracy: sums over half-precision numbers, and norms of large tensors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradclip_adapters.contract import Gradient

from ..build import DTYPES, NORM_OPERATIONS, list_makers, make_scattered_tensor, round_to_tensor
from ..model import Case, expect

LARGE = {"float16": 2**16, "bfloat16": 2**16, "float32": 2**18, "float64": 2**16}


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in ("float16", "bfloat16"):
        ones, sixteens = _make_constant(1.0, 4096, dtype), _make_constant(16.0, 4096, dtype)
        for make in list_makers(dtype, NORM_OPERATIONS):
            yield from make.table(
                "half-not-accumulated-in-half",
                # A running sum of ones stops at 2048 with 11 bits, and at 256 with 8 bits.
                ("running-sum", ones, 1.0),
                ("running-sum-of-a-matrix", round_to_tensor(np.ones((64, 64), dtype=np.float32), dtype), 1.0),
                ("running-sum-norm-one", ones, 64.0, {"norm_type": 1.0}),
                ("running-sum-norm-three", ones, 4.0, {"norm_type": 3.0}),
                # Each cube and the norm, 64, are within float16's range. The sum of the cubes is not.
                ("sum-out-of-range-norm-three", _make_constant(16.0, 64, dtype), 4.0, {"norm_type": 3.0}),
                # The norm is 1024. Its square is beyond float16's range.
                ("sum-out-of-range", sixteens, 2.0),
                expectation=expect("values", wide=True),
            )
    for dtype in DTYPES:
        large = make_scattered_tensor(LARGE[dtype], dtype)
        for make in list_makers(dtype, NORM_OPERATIONS):
            rule = "large-tensor-accuracy"
            yield make.case(rule, "scattered", large, 2.0)
            if make.operation.returns_norm:
                yield make.case(rule, "returned-norm", large, 2.0, expect("returned-norm"))


def _make_constant(value: float, length: int, dtype: str) -> Gradient:
    return round_to_tensor(np.full(length, value, dtype=np.float32), dtype)
