"""Add mutants whose defect shows only if several circumstances occur together, which rows combine."""

from __future__ import annotations

import numpy as np

from .steps import Array, ClipFunction
from .table import add_mutant


def _write_whole_vectors(self: ClipFunction, grad: Array, result: Array) -> Array:
    buffer = grad.base
    if buffer is not None and buffer.flags.c_contiguous and buffer.flags.writeable and grad.flags.c_contiguous:
        memory = buffer.reshape(-1).view(np.uint8)
        end = grad.ctypes.data + grad.nbytes - buffer.ctypes.data
        memory[end : end + -grad.nbytes % 16] = 0
    return result


add_mutant(
    "zeroes the bytes behind a gradient that lies within a buffer, up to the end of a vector of 16 bytes",
    "value.combinations",
    "norm.combinations",
    "global-norm.combinations",
    causes=["unexplained", "excluded-changed"],
    dtypes=["float32", "float64"],
    hand_back=_write_whole_vectors,
)


def _zero_what_overflows(self: ClipFunction, grad: Array, result: Array) -> Array:
    largest = float(np.max(np.abs(grad), initial=0.0))
    return result * 0 if grad.size > 4 and float(np.finfo(grad.dtype).max) ** 0.5 <= largest < np.inf else result


add_mutant(
    "returns zeros for more than four elements whose squares overflow",
    "*.combinations-extreme",
    causes=["gradients-zeroed", "squares-overflow"],
    hand_back=_zero_what_overflows,
)

# Other operations.

add_mutant(
    "counts the elements of a gradient in 16 bits",
    "*.combinations",
    average=lambda self, norm, elements: self.right.average(norm, elements % 65536),
)
add_mutant(
    "leaves all examples after the sixteenth out of the sum",
    "*.combinations",
    causes=["gradients-zeroed", "unexplained"],
    add=lambda self, parts: self.right.add(parts[:16]),
)
add_mutant(
    "leaves the units after the eighth of a gradient as they are",
    "*.combinations",
    causes=["not-clipped", "unexplained"],
    join_units=lambda self, grad, units: self.right.join_units(
        grad, [*units[:8], *grad[8:]] if len(units) > 8 else units
    ),
)
