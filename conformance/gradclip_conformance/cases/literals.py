"""Numbers as Python source that reads back exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["NoScript", "array_literal", "literal", "scattered"]

#: Longer arrays are written out only where a few elements repeat, or where they are `scattered`.
WRITTEN_ELEMENTS = 64


#: The source of `scattered`.
SCATTERED = "(np.arange({}, dtype=np.int64) * 2654435761 % 2**24 - 2**23) * 2.0**-29"


def scattered(length: int) -> np.ndarray[Any, Any]:
    """Numbers in [-1/64, 1/64] that look random and are the same everywhere: a multiplicative hash of their index."""
    hashed = np.arange(length, dtype=np.int64) * 2654435761 % 2**24
    return (hashed - 2**23) * 2.0**-29


class NoScript(Exception):
    """A cell cannot be shown by a script; the text says why."""


def literal(value: Any) -> str:
    """A number as source: the shortest decimal that reads back exactly; `nan` and `inf` are names of `math`."""
    return repr(value)


def array_literal(values: np.ndarray[Any, Any]) -> str:
    """An array of float64 as source: nested lists, or a call of NumPy where they would lose the shape or be long.

    Raises
    ------
    NoScript
        When the array is long, does not repeat a few elements and is not `scattered`.
    """
    if values.size == 0:
        return f"np.zeros({values.shape})"
    if values.size <= WRITTEN_ELEMENTS:
        return repr(values.tolist())
    for period in range(1, WRITTEN_ELEMENTS):
        times, rest = divmod(values.size, period)
        if values.ndim == 1 and np.array_equal(np.resize(values[:period], values.size), values, equal_nan=True):
            function, count = ("resize", values.size) if rest else ("tile", times)
            return f"np.{function}({values[:period].tolist()!r}, {count})"
    if np.array_equal(scattered(values.size), values):
        return SCATTERED.format(values.size)
    msg = f"The gradient has {values.size} elements, too many to write out."
    raise NoScript(msg)
