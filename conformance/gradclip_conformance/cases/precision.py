"""Cases of accuracy: half precision is not accumulated in half precision, and large tensors keep their digits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradclip_adapters.contract import Array, Gradient

from ..case import Case, ReturnedNorm, Values
from ..literals import scattered
from .build import DTYPES, NORM_OPERATIONS, case

__all__ = ["cases"]

LARGE = {"float16": 2**16, "bfloat16": 2**16, "float32": 2**20, "float64": 2**16}


def cases() -> Iterator[Case]:
    """All cases of this theme."""
    for operation in NORM_OPERATIONS:
        for dtype in ("float16", "bfloat16"):
            rule = f"{operation}.half-not-accumulated-in-half"
            # A running sum of ones in 11 bits stops at 2048, in 8 bits at 256.
            ones = [_constant(1.0, 4096, dtype)]
            yield case(rule, "running-sum", dtype, ones, {"clip_norm": 1.0}, Values(wide=True))
            # The norm is 1024; its square is out of float16's range.
            sixteens = [_constant(16.0, 4096, dtype)]
            yield case(rule, "sum-out-of-range", dtype, sixteens, {"clip_norm": 2.0}, Values(wide=True))
        for dtype in DTYPES:
            large = [_gradient(scattered(LARGE[dtype]), dtype)]
            rule = f"{operation}.large-tensor-accuracy"
            yield case(rule, "scattered", dtype, large, {"clip_norm": 2.0}, Values())
            if operation == "global-norm":
                returned = ["returns_norm"]
                yield case(rule, "returned-norm", dtype, large, {"clip_norm": 2.0}, ReturnedNorm(), returned)


def _constant(value: float, length: int, dtype: str) -> Gradient:
    return _gradient(np.full(length, value, dtype=np.float32), dtype)


def _gradient(values: np.ndarray[Any, Any], dtype: str) -> Gradient:
    if dtype == "bfloat16":
        # Cut to its upper 16 bits, a float32 is a bfloat16: which neighbour it becomes does not matter here.
        bits = (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        return Gradient("", Array.of(bits, dtype="bfloat16"))
    return Gradient("", Array.of(values.astype(dtype)))
