"""Numbers as Python source that reads back exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["NoScript", "array_literal", "literal"]

#: Longer arrays are written out only where a few elements repeat.
WRITTEN_ELEMENTS = 64


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
        When the array is long and does not repeat a few elements.
    """
    if values.size == 0:
        return f"np.zeros({values.shape})"
    if values.size <= WRITTEN_ELEMENTS:
        return repr(values.tolist())
    for period in range(1, WRITTEN_ELEMENTS):
        times, rest = divmod(values.size, period)
        if values.ndim == 1 and not rest and np.array_equal(np.tile(values[:period], times), values):
            return f"np.tile({values[:period].tolist()!r}, {times})"
    msg = f"The gradient has {values.size} elements, too many to write out."
    raise NoScript(msg)
