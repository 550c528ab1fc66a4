"""Choose the threshold or the bounds of a row's call, from its arrays and the relation that its levels name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradclip_adapters.contract import Array, Gradient

from ..oracle.formats import FORMATS, decode_doubles, next_down, next_up, read_all, read_float64_values, round_all
from .axes import NEAR

BESIDE = (*NEAR, "slightly-below", "slightly-above")

#: The exponents of the elements in the dtypes whose exponent has eight bits.
EIGHT_BITS = {
    "ordinary": -3,
    "squares-over": 66,
    "sum-over": 61,
    "squares-under": -80,
    "near-largest": 106,
    "near-smallest": -124,
}
#: The exponent of most elements for each magnitude.
EXPONENTS = {
    "float16": {"ordinary": -6, "squares-over": 9, "sum-over": 5, "squares-under": -13},
    "bfloat16": EIGHT_BITS,
    "float32": EIGHT_BITS,
    "float64": {
        "ordinary": -3,
        "squares-over": 520,
        "sum-over": 509,
        "squares-under": -560,
        "near-largest": 1002,
        "near-smallest": -1020,
    },
}

#: The exponent of the elements if the threshold is an int.
WHOLE = 2

#: The quotient of threshold and norm, or of bound and smallest element.
FACTORS = {"above": 0.5, "far-below": 50.0, "below": 2.0, "far-above": 0.02, "tiny": 1e-4}
BOUND_FACTORS = {"above": 1.75, "far-below": 200.0, "below": 8.0, "far-above": 0.02, "tiny": 1e-4}

#: A threshold that is made from a norm is rounded to this many bits, because the last bits of the norm may differ
#: between machines.
SURE_DIGITS, SLIGHT_DIGITS = 7, 16

#: The largest part of the norm by which a threshold is slightly above or below it.
MOST_BESIDE = 1 / 16

#: An integer threshold that does not fit into 32 bits, but that float32 represents.
LONG_INTEGER = 2**31 + 256


def parse_norm_order(word: str, default: float = 2.0) -> float:
    """Return the order of a level of the axis `norm`."""
    return default if word == "no-norm" else math.inf if word == "p-inf" else float(word.removeprefix("p"))


def choose_threshold(
    levels: Mapping[str, str], chosen: Sequence[Array], dtype: str, divisor: float = 1.0, order: float = 2.0
) -> float:
    """Return the threshold of a clip by norm.

    Parameters
    ----------
    levels
        The levels of the row.
    chosen
        The arrays that share the norm to which the threshold is compared.
    dtype
        The dtype of the call with the fewest digits, in which the threshold is a number.
    divisor
        The number that divides the norm: of an average, or of a parameter that the threshold is multiplied with.
    order
        The order of the norm, unless the levels name another.
    """
    relation = levels["relation"]
    norm = estimate_norm(chosen, parse_norm_order(levels.get("norm", "no-norm"), order)) / divisor
    if relation in NEAR:
        return _find_neighbour(norm or 1.0, relation, dtype)
    if levels["threshold"] == "integer":
        return max(1, round(_round_surely(norm * FACTORS[relation])))
    elements = sum(len(array.data) // (FORMATS[array.dtype].width // 8) for array in chosen)
    return _choose_beside(norm, levels, dtype, FACTORS, elements)


def _choose_beside(
    norm: float, levels: Mapping[str, str], dtype: str, factors: Mapping[str, float], elements: int = 1
) -> float:
    """Return a threshold so far from the norm that rounding does not matter."""
    relation = levels["relation"]
    if relation in ("zero", "infinite"):
        return 0.0 if relation == "zero" else math.inf
    if relation == "beyond":
        return float(FORMATS[dtype].largest) * 8
    if levels["threshold"] == "long-integer":
        return LONG_INTEGER
    if relation in factors:
        return _add_digits(norm * factors[relation] or 1.0, dtype)
    # Change the threshold by a small part of the norm. This part exceeds the rounding errors of the dtype, and those of
    # a sum of so many elements in float32.
    digits = FORMATS[dtype].precision
    part = 2.0 ** -min(11, digits - 3)
    if digits <= FORMATS["float32"].precision:
        part = max(part, min(MOST_BESIDE, elements * 2.0**-23))
    value = norm * (1 - part if relation == "slightly-above" else 1 + part) or 1.0
    return _round(_round_surely(min(value, float(FORMATS[dtype].largest)), SLIGHT_DIGITS), dtype)


def choose_bounds(levels: Mapping[str, str], gradients: Sequence[Gradient], weighty: int) -> dict[str, Any]:
    """Return the options of a clip by value."""
    relation, dtype = levels["relation"], find_narrowest(gradients)
    # The size of the smaller elements.
    unit = 2.0 ** (WHOLE if levels["threshold"] == "integer" else EXPONENTS[dtype][levels["magnitude"]])
    if relation in BESIDE:
        array = gradients[weighty].array if weighty >= 0 else None
        values = np.abs(read_float64_values(array)) if array is not None else np.zeros(0)
        values = values[np.isfinite(values)]
        largest = float(values.max()) if values.size else unit
        if relation in NEAR:
            high = _find_neighbour(_round(largest, dtype) or unit, relation, dtype)
        else:
            high = _choose_beside(largest or unit, levels, dtype, BOUND_FACTORS)
    elif levels["threshold"] == "integer":
        high = {"above": 7, "below": 32}[relation]
    else:
        high = _choose_beside(unit, levels, dtype, BOUND_FACTORS)
    if levels["bounds"] == "max-only":
        return {"max": high}
    if high in (0.0, math.inf):
        return {"max": high, "min": -unit}
    return {"max": high, "min": -(high // 2 if isinstance(high, int) else _round(high / 2, dtype))}


def find_narrowest(gradients: Sequence[Gradient]) -> str:
    """Return the dtype of the gradients that has the fewest digits."""
    names = [gradient.array.dtype for gradient in gradients if gradient.array is not None] or ["float32"]
    return min(names, key=lambda name: FORMATS[name].precision)


def estimate_norm(arrays: Sequence[Array], order: float) -> float:
    """Return the approximate norm of the finite elements."""
    # A long array is changed in place, because the system must clear the memory of each new one.
    values = np.concatenate([np.zeros(1), read_all(arrays)])
    np.abs(values, out=values)
    scale = float(values.max())
    if not math.isfinite(scale):
        values = values[np.isfinite(values)]
        scale = float(values.max())
    if scale == 0 or order == math.inf:
        return scale
    values /= scale
    values **= order
    return float(scale * values.sum() ** (1 / order))


def _find_neighbour(value: float, relation: str, dtype: str) -> float:
    """Return a threshold next to the norm: just below it if the norm must be just above, and vice versa."""
    if relation == "at":
        return value
    return next_down(value, dtype) if relation == "just-above" else next_up(value, dtype)


def _round_surely(value: float, digits: int = SURE_DIGITS) -> float:
    """Return a number rounded to few bits, so that all machines agree."""
    fraction, exponent = math.frexp(value)
    return math.ldexp(round(fraction * 2**digits), exponent - digits)


def _add_digits(value: float, dtype: str) -> float:
    """Return a number near `value` that uses all digits of a dtype, and is within its range."""
    form = FORMATS[dtype]
    value = min(value, float(form.largest) / 2)
    fraction, exponent = math.frexp(_round_surely(value))
    digits = form.precision - SURE_DIGITS
    whole = (int(fraction * 2**SURE_DIGITS) << digits) | (0x1555555555555555 >> (61 - digits))
    return _round(math.ldexp(whole, exponent - form.precision), dtype)


def _round(value: float, dtype: str) -> float:
    return float(decode_doubles(round_all(np.array([value]), dtype), dtype)[0])
