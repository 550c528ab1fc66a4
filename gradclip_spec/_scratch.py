"""Memory for intermediate results that the next call uses again.

Memory that is new from the system is cleared page by page when it is first written to, which takes longer than the
computation that it is for.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["borrowed"]

Array = np.ndarray[Any, Any]

#: Bytes that are borrowed at the least, so that what is used again fits whoever is next.
_LEAST = 1 << 19
#: Bytes of the largest piece that is kept, and how many pieces are.
_MOST = 1 << 22
_PIECES = 4

#: What is too small for anyone.
_NOTHING: Array = np.empty(0, np.uint8)
_kept: list[Array] = []


@contextlib.contextmanager
def borrowed(size: int, dtype: Any) -> Iterator[Array]:
    """A flat array with any content, for this block alone: its memory is for the next one that borrows some."""
    needed = size * np.dtype(dtype).itemsize
    memory = _taken() if needed <= _MOST else _NOTHING
    if memory.size < max(needed, 1):
        memory = np.empty(max(needed, _LEAST), np.uint8)
    try:
        yield memory[:needed].view(dtype)
    finally:
        if memory.size <= _MOST and len(_kept) < _PIECES:
            _kept.append(memory)


def _taken() -> Array:
    """A piece that nobody else has any longer: other threads may be taking theirs at this moment."""
    try:
        return _kept.pop()
    except IndexError:
        return _NOTHING
