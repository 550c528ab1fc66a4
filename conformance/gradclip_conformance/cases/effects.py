"""Cases of what happens to the gradients that were passed, of repetition, and of several threads."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..case import Case, InputsKept, InputsWritten, Repeatable
from .build import DTYPES, OPERATIONS, case, clipping_options, scattered_tensor, tensor, tensor_of

__all__ = ["cases"]


def cases() -> Iterator[Case]:
    """All cases of this theme."""
    for dtype in DTYPES:
        for operation in OPERATIONS:
            tensors = [tensor([3.0, -4.0], dtype), tensor([12.0], dtype)]
            for name, threshold in (("clipped", 2.0), ("not-clipped", 32.0)):
                options = clipping_options(operation, threshold)
                yield case(
                    f"{operation}.inputs-not-mutated", name, dtype, tensors, options, InputsKept(), ["functional"]
                )
                yield case(
                    f"{operation}.in-place-written", name, dtype, tensors, options, InputsWritten(), ["in_place"]
                )
            yield from _passed(operation, dtype)
            options = clipping_options(operation, 2.0)
            uneven = [tensor([float(k) for k in range(-8, 9)], dtype), tensor([0.5, 0.25, -3.0], dtype)]
            yield case(f"{operation}.repeatable", "twice", dtype, uneven, options, Repeatable())
            # Long enough for another thread to have its turn meanwhile.
            long = [scattered_tensor(length, dtype) for length in (2**14, 2**13)]
            options = clipping_options(operation, 2.0**-7)
            yield case(f"{operation}.threads-agree", "eight", dtype, long, options, Repeatable(threads=8), ["threads"])


def _passed(operation: str, dtype: str) -> Iterator[Case]:
    """Of every form: a write may go astray, or to a copy, for some of them only."""
    options = clipping_options(operation, 2.0)
    values = [6.0, -2.0, 4.0, 8.0, -1.0, 0.0]
    # In half precision the error bound of a long sum would hide a part that is not written.
    long = [tensor_of(np.tile([4.0, -1.0, 2.0], 1367), dtype)] if dtype in ("float32", "float64") else []
    # An error for what is not finite, which a clip by norm may raise, would say nothing of this.
    nonfinite = [tensor([3.0, math.nan, math.inf], dtype)] if operation == "value" else []
    for name, tensors in (
        ("alone", [tensor([3.0, -4.0], dtype)]),
        ("scalars", [tensor([3.0], dtype, ()), tensor([-4.0], dtype, ())]),
        ("matrix", [tensor(values, dtype, (2, 3))]),
        ("strided", [tensor(values, dtype, (2, 3), layout="strided")]),
        ("transposed", [tensor(values, dtype, (2, 3), layout="transposed")]),
        ("long", long),
        ("nonfinite", nonfinite),
    ):
        if tensors:
            kept, written = f"{operation}.inputs-not-mutated", f"{operation}.in-place-written"
            yield case(kept, name, dtype, tensors, options, InputsKept(), ["functional"])
            yield case(written, name, dtype, tensors, options, InputsWritten(), ["in_place"])
