"""Cases and arrays in a form that a person reads and that reads back exactly: floats as hexadecimal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradclip_adapters.contract import DTYPES, Array, Gradient

from .model import Case

__all__ = ["SHOWN_ELEMENTS", "float64_values", "readable_array", "readable_input"]

#: Longer arrays are cut; the case's id says how to make the whole.
SHOWN_ELEMENTS = 16


def float64_values(array: Array) -> np.ndarray[Any, Any]:
    """The elements as float64, exactly, flat.

    Raises
    ------
    ValueError
        When the dtype is none of the four on the wire.
    """
    if array.dtype == "bfloat16":
        bits = np.frombuffer(array.data, dtype="<u2").astype(np.uint32) << np.uint32(16)
        with np.errstate(invalid="ignore"):  # a signalling NaN among the bits is only converted
            return bits.view(np.float32).astype(np.float64)
    if array.dtype not in DTYPES:
        msg = f"the dtype {array.dtype} is not one of {', '.join(DTYPES)}"
        raise ValueError(msg)
    with np.errstate(invalid="ignore"):  # a signalling NaN among the bits is only converted
        return np.frombuffer(array.data, dtype=np.dtype(array.dtype).newbyteorder("<")).astype(np.float64)


def _hex(values: Sequence[float]) -> list[str]:
    return [value.hex() if math.isfinite(value) else str(value) for value in values]


def readable_array(array: Array | None) -> Any:
    """An array as dtype, shape and hexadecimal elements; None stays None."""
    if array is None:
        return None
    shown: dict[str, Any] = {"dtype": array.dtype, "shape": list(array.shape)}
    if array.dtype not in DTYPES:
        return shown
    values = float64_values(array)
    shown["values"] = _hex(values[:SHOWN_ELEMENTS].tolist())
    if len(values) > SHOWN_ELEMENTS:
        shown["elements"] = len(values)
    return shown


def _readable_gradient(gradient: Gradient) -> Any:
    shown = {"array": readable_array(gradient.array)}
    if not gradient.need_clip:
        shown["need_clip"] = False
    if gradient.layout != "contiguous":
        shown["layout"] = gradient.layout
    if gradient.same_as is not None:
        shown["same_as"] = gradient.same_as
    return shown


def readable_input(case: Case) -> dict[str, Any]:
    """The call of a case, the first of its gradients at least."""
    gradients = [_readable_gradient(gradient) for gradient in case.gradients[:SHOWN_ELEMENTS]]
    options = {name: _hex([value])[0] if isinstance(value, float) else value for name, value in case.options.items()}
    shown: dict[str, Any] = {"gradients": gradients, "options": options}
    if len(case.gradients) > SHOWN_ELEMENTS:
        shown["tensors"] = len(case.gradients)
    return shown
