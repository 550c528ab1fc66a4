"""How far results lie from a prediction, in ulp, and whether gradients are the same bit for bit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from gradclip_adapters.contract import DTYPES, Array

from .case import Case
from .distances import largest_distance, rounded
from .expected import Expected
from .formats import FORMATS, round_to, to_doubles, ulp
from .predict import Prediction
from .show import SHOWN_ELEMENTS, float64_values, readable_array

__all__ = ["Measured", "expected_arrays", "measure", "norm_distance", "norm_value", "same_bits"]


@dataclass(frozen=True)
class Measured:
    """The largest distance among some gradients, and where it is."""

    ulp: float
    tensor: int = -1
    element: int = -1
    #: A gradient that must be left alone was changed, by however little.
    touched: bool = False


def same_bits(given: Array, got: Array | None, through_optimizer: bool) -> bool:
    """Whether a gradient came back bit for bit; through an optimizer, as far as that can be seen."""
    if got is None or (given.dtype, given.shape) != (got.dtype, got.shape):
        return False
    if given.data == got.data:
        return True
    if not through_optimizer:
        return False
    before, after = float64_values(given), float64_values(got)
    return bool(np.array_equal(before, after, equal_nan=True))


def measure(case: Case, prediction: Prediction, results: Sequence[Array | None], indices: Sequence[int]) -> Measured:
    """The largest distance from a prediction among these gradients, of those whose expectation is finite."""
    worst = Measured(0.0)
    for i in indices:
        expected, got, given = prediction.gradients[i], results[i], case.gradients[i].array
        if expected is None or got is None or given is None:
            continue
        distance, place = largest_distance(_in_dtype(got, given.dtype), expected, given.dtype)
        touched = expected.is_unchanged and not prediction.near[i] and distance > 0
        if distance > worst.ulp or (touched and not worst.touched):
            worst = Measured(max(distance, worst.ulp), i, place, touched or worst.touched)
    return worst


def _in_dtype(array: Array, dtype: str) -> bytes:
    """The elements' bytes in another dtype, each rounded once: a result of the wrong dtype still has values."""
    if array.dtype == dtype:
        return array.data
    values = float64_values(array)
    if dtype != "bfloat16":
        with np.errstate(over="ignore"):
            return values.astype(np.dtype(dtype).newbyteorder("<")).tobytes()
    form = FORMATS[dtype]
    bits = [
        round_to(Fraction(value), form) if math.isfinite(value) else _special_bits(value) for value in values.tolist()
    ]
    return np.array(bits, dtype="<u2").tobytes()


def _special_bits(value: float) -> int:
    return int(np.array([value], dtype=np.float32).view(np.uint32)[0] >> 16)


def norm_value(norm: Array) -> float:
    """A norm that was returned, as a float.

    Raises
    ------
    ValueError
        When it is not one number.
    """
    if math.prod(norm.shape) != 1:
        msg = f"the norm that was returned has the shape {norm.shape}, not one number"
        raise ValueError(msg)
    if norm.dtype in DTYPES:
        return float(to_doubles(norm.data, norm.dtype)[0])
    dtype = np.dtype(norm.dtype)
    if dtype.kind not in "iu":
        msg = f"the norm that was returned is of the dtype {norm.dtype}"
        raise ValueError(msg)
    # A norm over nothing may come back as the integer 0.
    return float(np.frombuffer(norm.data, dtype=dtype.newbyteorder("<"))[0])


def norm_distance(norm: Array, expected: Fraction, dtype: str) -> float:
    """How far a norm lies from the exact one, in ulp of the coarser one of its own dtype and the gradients'."""
    value = norm_value(norm)
    if not math.isfinite(value):
        form = FORMATS.get(norm.dtype, FORMATS["float64"])
        return 0.0 if value == math.inf and round_to(expected, form) == form.infinity_bits else math.inf
    names = [name for name in (norm.dtype, dtype) if name in FORMATS]
    form = min((FORMATS[name] for name in names), key=lambda one: one.precision)
    return float(abs(Fraction(value) - expected) / ulp(expected, form))


def expected_arrays(case: Case, gradients: Sequence[Expected | None]) -> list[Any]:
    """The expected gradients, rounded once to their dtypes, in readable form; the first elements of the first ones."""
    pairs = list(zip(case.gradients, gradients, strict=True))[:SHOWN_ELEMENTS]
    return [_expected_array(gradient.array, expected) for gradient, expected in pairs]


def _expected_array(given: Array | None, expected: Expected | None) -> Any:
    if given is None or expected is None:
        return None
    first = replace(expected, values=expected.values.first(SHOWN_ELEMENTS))
    shown = readable_array(Array(given.dtype, (len(first.values),), rounded(first, given.dtype)))
    shown["shape"] = list(given.shape)
    if len(expected.values) > SHOWN_ELEMENTS:
        shown["elements"] = len(expected.values)
    return shown


def options_of(formula: Mapping[str, Any]) -> str:
    """A formula in words for a sentence."""
    eps = f", eps = {formula['eps']:g}" if "eps" in formula else ""
    return f"{formula['kind']}{eps}"
