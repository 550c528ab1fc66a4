"""Limit the size of an answer by the size of the call that it answers."""

from __future__ import annotations

from .contract import Call
from .limits import LINE

__all__ = ["count_answer_bytes", "count_answer_line_bytes"]

#: The limit is proportional to the size of the call. An answer holds the results and the inputs. The results may have
#: another dtype: complex256, the widest, takes 16 times as many bytes as float16. A fixed allowance covers empty
#: gradients and texts.
BYTES_PER_BYTE, FREE_BYTES = 24, 4 << 20


def count_answer_bytes(call: Call) -> int:
    """Return the number of bytes that all arrays of an answer to a call may take together."""
    total = 0
    for gradient in call.gradients:
        if gradient.array is None:
            continue
        size = len(gradient.array.data)
        if gradient.rows and gradient.height:
            # A sparse gradient may come back dense.
            size = size // len(gradient.rows) * max(gradient.height, len(gradient.rows))
        total += size
    return FREE_BYTES + BYTES_PER_BYTE * total


def count_answer_line_bytes(call: Call) -> int:
    """Return the number of bytes that the line of an answer may take, including base64, names and texts."""
    return min(LINE.number, 2 * count_answer_bytes(call) + FREE_BYTES)
