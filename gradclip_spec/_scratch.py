"""Memory for intermediate results that the next call uses again.

Memory that is new from the system is cleared page by page when it is first written to. For as much as a call needs
beside its gradients, that takes longer than what is computed in it.
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

_kept: list[Array] = []


@contextlib.contextmanager
def borrowed(size: int, dtype: Any) -> Iterator[Array]:
    """A flat array of any content, whose memory is others' when the block ends."""
    dtype = np.dtype(dtype)
    memory = _taken()
    if memory.size < size * dtype.itemsize:
        memory = np.empty(max(size * dtype.itemsize, _LEAST), np.uint8)
    try:
        yield memory[: size * dtype.itemsize].view(dtype)
    finally:
        if memory.size <= _MOST and len(_kept) < _PIECES:
            _kept.append(memory)


def _taken() -> Array:
    """A piece that nobody else has any longer: other threads may be taking theirs at this moment."""
    try:
        return _kept.pop()
    except IndexError:
        return np.empty(0, np.uint8)
