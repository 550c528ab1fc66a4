"""Show cases and arrays to people, in a form that can be read back exactly: floats are hexadecimal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gradclip_adapters.contract import DTYPES, Array, Gradient
from gradclip_reports.limits import shorten

from ..oracle.formats import encode, read_float64_values
from .literals import NoScript
from .model import Case

#: Longer arrays are cut. The id of the case gives access to the whole array.
SHOWN_ELEMENTS = 16


def _format_hex(values: Sequence[float]) -> list[str]:
    return [value.hex() if math.isfinite(value) else str(value) for value in values]


def show_array(array: Array | None) -> Any:
    """Return an array as dtype, shape and hexadecimal elements. None stays None."""
    if array is None:
        return None
    shown: dict[str, Any] = {"dtype": array.dtype, "shape": list(array.shape)}
    if array.dtype not in DTYPES:
        return shown
    values = read_float64_values(array)
    shown["values"] = _format_hex(values[:SHOWN_ELEMENTS].tolist())
    if len(values) > SHOWN_ELEMENTS:
        shown["elements"] = len(values)
    return shown


def show_gradients(arrays: Sequence[Array | None]) -> dict[str, Any]:
    """Return gradients as a record shows them."""
    return {"gradients": [show_array(array) for array in arrays]}


def read_shown_array(shown: Mapping[str, Any] | None) -> Array | None:
    """Return the array that `show_array` wrote. If it wrote only the first elements, return these. None stays None.

    Raises
    ------
    NoScript
        If a record shows something that `show_array` never writes.
    """
    if shown is None:
        return None
    try:
        values = [float.fromhex(value) for value in shown["values"]]
        shape = (len(values),) if "elements" in shown else tuple(shown["shape"])
        if not all(type(length) is int for length in shape) or math.prod(shape) != len(values):
            msg = f"the shape does not hold {len(values)} numbers"
            raise ValueError(msg)
        return Array(shown["dtype"], shape, encode(values, shown["dtype"]))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        msg = f"The record shows an array that cannot be read ({type(error).__name__}: {shorten(str(error), 100)})."
        raise NoScript(msg) from error


def read_shown_arrays(shown: Any, like: Sequence[Array | None]) -> tuple[Array | None, ...]:
    """Return the arrays that a record shows for some gradients, each in the shape of its gradient.

    Parameters
    ----------
    shown : Any
        What the record has under "gradients".
    like : sequence of Array or None
        The gradients.

    Returns
    -------
    tuple of Array or None
        One array for each gradient; None where there is no gradient.

    Raises
    ------
    NoScript
        When the record shows something else, or only the first elements of an array.
    """
    arrays = tuple(map(read_shown_array, shown)) if isinstance(shown, list) and len(shown) == len(like) else None
    if arrays is None or [_get_shape(array) for array in arrays] != [_get_shape(array) for array in like]:
        msg = "The record does not show one whole array, of the same shape, for each gradient."
        raise NoScript(msg)
    return arrays


def _get_shape(array: Array | None) -> tuple[int, ...] | None:
    return None if array is None else tuple(array.shape)


def _show_gradient(gradient: Gradient) -> Any:
    shown = {"array": show_array(gradient.array)}
    if not gradient.need_clip:
        shown["need_clip"] = False
    if gradient.layout != "contiguous":
        shown["layout"] = gradient.layout
    if gradient.same_as is not None:
        shown["same_as"] = gradient.same_as
    if gradient.height is not None and gradient.rows is None:
        shown["height"] = gradient.height
    if gradient.placements:
        shown["placements"] = dict(gradient.placements)
    if gradient.parameter is not None:
        shown["parameter"] = show_array(gradient.parameter)
    return shown


def show_input(case: Case) -> dict[str, Any]:
    """Return the call of a case, with at most the first 16 of its gradients."""
    gradients = [_show_gradient(gradient) for gradient in case.gradients[:SHOWN_ELEMENTS]]
    options = {
        name: _format_hex([value])[0] if isinstance(value, float) else value for name, value in case.options.items()
    }
    shown: dict[str, Any] = {"gradients": gradients, "options": options}
    if len(case.gradients) > SHOWN_ELEMENTS:
        shown["tensors"] = len(case.gradients)
    return shown
