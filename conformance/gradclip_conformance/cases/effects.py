"""Cases of what happens to the gradients that were passed, of repetition, and of several threads."""

from __future__ import annotations

from collections.abc import Iterator

from ..case import Case, InputsKept, InputsWritten, Repeatable
from .build import DTYPES, OPERATIONS, case, clipping_options, scattered_tensor, tensor

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
            options = clipping_options(operation, 2.0)
            uneven = [tensor([float(k) for k in range(-8, 9)], dtype), tensor([0.5, 0.25, -3.0], dtype)]
            yield case(f"{operation}.repeatable", "twice", dtype, uneven, options, Repeatable())
            # Long enough for another thread to have its turn meanwhile.
            long = [scattered_tensor(length, dtype) for length in (2**14, 2**13)]
            options = clipping_options(operation, 2.0**-7)
            yield case(f"{operation}.threads-agree", "eight", dtype, long, options, Repeatable(threads=8), ["threads"])
