"""Make cases of accuracy: sums over half-precision numbers, and norms of large tensors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradclip_adapters.contract import Gradient

from ..build import DTYPES, NORM_OPERATIONS, make_case, make_scattered_tensor, round_to_tensor
from ..model import Case, expect

__all__ = ["make_cases"]

LARGE = {"float16": 2**16, "bfloat16": 2**16, "float32": 2**20, "float64": 2**16}


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for operation in NORM_OPERATIONS:
        for dtype in ("float16", "bfloat16"):
            rule = f"{operation}.half-not-accumulated-in-half"
            # A running sum of ones stops at 2048 with 11 bits, and at 256 with 8 bits.
            ones = [_make_constant(1.0, 4096, dtype)]
            yield make_case(rule, "running-sum", dtype, ones, {"clip_norm": 1.0}, expect("values", wide=True))
            matrix = [round_to_tensor(np.ones((64, 64), dtype=np.float32), dtype)]
            yield make_case(
                rule, "running-sum-of-a-matrix", dtype, matrix, {"clip_norm": 1.0}, expect("values", wide=True)
            )
            magnitudes = {"clip_norm": 64.0, "norm_type": 1.0}
            yield make_case(rule, "running-sum-norm-one", dtype, ones, magnitudes, expect("values", wide=True))
            cubes = {"clip_norm": 4.0, "norm_type": 3.0}
            yield make_case(rule, "running-sum-norm-three", dtype, ones, cubes, expect("values", wide=True))
            # Each cube and the norm, 64, are within float16's range. The sum of the cubes is not.
            few = [_make_constant(16.0, 64, dtype)]
            yield make_case(rule, "sum-out-of-range-norm-three", dtype, few, cubes, expect("values", wide=True))
            # The norm is 1024. Its square is beyond float16's range.
            sixteens = [_make_constant(16.0, 4096, dtype)]
            yield make_case(rule, "sum-out-of-range", dtype, sixteens, {"clip_norm": 2.0}, expect("values", wide=True))
        for dtype in DTYPES:
            large = [make_scattered_tensor(LARGE[dtype], dtype)]
            rule = f"{operation}.large-tensor-accuracy"
            yield make_case(rule, "scattered", dtype, large, {"clip_norm": 2.0}, expect("values"))
            if operation == "global-norm":
                returned = ["returns_norm"]
                yield make_case(
                    rule, "returned-norm", dtype, large, {"clip_norm": 2.0}, expect("returned-norm"), returned
                )


def _make_constant(value: float, length: int, dtype: str) -> Gradient:
    return round_to_tensor(np.full(length, value, dtype=np.float32), dtype)
