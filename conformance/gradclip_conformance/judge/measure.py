"""How far results lie from a prediction, in ulp, and whether gradients are the same bit for bit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from gradclip_adapters.contract import DTYPES, Array

from ..cases.model import Case
from ..cases.readable import SHOWN_ELEMENTS, float64_values, readable_array
from ..oracle.distances import distances, rounded
from ..oracle.formats import FORMATS, float_quotient, round_to, to_doubles, ulp
from ..oracle.model import Expected
from ..oracle.predict import Prediction, narrowest

__all__ = [
    "GRADES",
    "Measured",
    "as_dtype",
    "expected_arrays",
    "measure",
    "norm_distance",
    "norm_value",
    "options_of",
    "same_bits",
]

#: From the best to the worst.
GRADES = ("pass", "quality", "fail")


_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class Measured:
    """The worst of some gradients, and where it is."""

    #: Within the budget, within the error bound, or beyond both.
    grade: str = "pass"
    ulp: float = 0.0
    tensor: int = -1
    element: int = -1
    budget: float = 0.0
    bound: float = 0.0
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


def measure(
    case: Case,
    prediction: Prediction,
    results: Sequence[Array | None],
    indices: Sequence[int],
    flushes_subnormals: bool = False,
) -> Measured:
    """The worst of these gradients against a prediction, among those whose expectation is finite.

    Of a subject that flushes subnormal numbers, zeros and subnormal numbers count as the same.
    """
    # Among several dtypes the common norm may have been rounded to the coarsest.
    coarsest = narrowest(case) if case.operation == "clip_by_global_norm" else None
    found = [
        _measure_one(case, prediction, i, got, coarsest or given.dtype, flushes_subnormals)
        for i in indices
        if (got := results[i]) is not None
        and (given := case.gradients[i].array) is not None
        and prediction.gradients[i] is not None
    ]
    return max(found, key=lambda one: (GRADES.index(one.grade), one.ulp), default=Measured())


def _measure_one(
    case: Case, prediction: Prediction, index: int, got: Array, coarsest: str, flushes_subnormals: bool
) -> Measured:
    gradient = case.gradients[index]
    key = (gradient.array, gradient.need_clip, got, coarsest, flushes_subnormals)
    if key not in prediction.measured:
        assert gradient.array is not None
        prediction.measured[key] = _measure_new(prediction, index, got, gradient.array, coarsest, flushes_subnormals)
    known: Measured = prediction.measured[key]
    return replace(known, tensor=index)


def _measure_new(
    prediction: Prediction, index: int, got: Array, given: Array, coarsest: str, flushes_subnormals: bool
) -> Measured:
    expected, errors = prediction.gradients[index], prediction.errors[index]
    assert expected is not None
    data = as_dtype(got, given.dtype)
    every = distances(data, expected, given.dtype)
    if flushes_subnormals:
        every[_both_tiny(data, expected, given.dtype)] = 0.0
    place = int(every.argmax()) if len(every) else -1
    distance = float(every[place]) if len(every) else 0.0
    coarser = max(1.0, 2.0 ** (FORMATS[given.dtype].precision - FORMATS[coarsest].precision))
    touched = expected.is_unchanged and not prediction.near[index] and distance > 0
    bound = errors.clip_bound * coarser
    grade = "fail" if touched or distance > bound else "quality" if distance > errors.clip_budget else "pass"
    return Measured(grade, distance, index, place, errors.clip_budget, bound, touched)


def _both_tiny(got: bytes, expected: Expected, dtype: str) -> npt.NDArray[np.bool_]:
    """Where the result and the exact element are both below the normal numbers."""
    smallest = FORMATS[dtype].smallest_normal
    exact = np.array([abs(fraction) < smallest for fraction in expected.fractions()], dtype=np.bool_)
    both: npt.NDArray[np.bool_] = exact & (np.abs(to_doubles(got, dtype)) < float(smallest))
    return both


def as_dtype(array: Array, dtype: str) -> bytes:
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
    if norm.dtype not in _INTEGERS:
        msg = f"the norm that was returned is of the dtype {norm.dtype}"
        raise ValueError(msg)
    # A norm over nothing may come back as the integer 0.
    dtype = np.dtype(norm.dtype)
    return float(np.frombuffer(norm.data, dtype=dtype.newbyteorder("<"))[0])


def norm_distance(norm: Array, expected: Fraction, dtype: str) -> float:
    """How far a norm, of whatever dtype, lies from the exact one, in ulp of the gradients' dtype.

    A wider norm may be as wrong as one of the gradients' dtype; a narrower one loses their digits. Infinity is right
    where the exact norm is beyond the gradients' dtype.
    """
    value, form = norm_value(norm), FORMATS[dtype]
    if not math.isfinite(value):
        return 0.0 if value == math.inf and round_to(expected, form) == form.infinity_bits else math.inf
    return float_quotient(abs(Fraction(value) - expected), ulp(expected, form))


def expected_arrays(case: Case, gradients: Sequence[Expected | None]) -> list[Any]:
    """The expected gradients, rounded once to their dtypes, in readable form; the first elements of the first ones."""
    pairs = list(zip(case.gradients, gradients, strict=True))[:SHOWN_ELEMENTS]
    return [_expected_array(gradient.array, expected) for gradient, expected in pairs]


def _expected_array(given: Array | None, expected: Expected | None) -> Any:
    if given is None or expected is None:
        return None
    first = replace(expected, values=expected.values.part(0, SHOWN_ELEMENTS))
    shown = readable_array(Array(given.dtype, (len(first.values),), rounded(first, given.dtype)))
    shown["shape"] = list(given.shape)
    if len(expected.values) > SHOWN_ELEMENTS:
        shown["elements"] = len(expected.values)
    return shown


def options_of(formula: Mapping[str, Any]) -> str:
    """A formula in words for a sentence."""
    eps = f", eps = {formula['eps']:g}" if "eps" in formula else ""
    return f"{formula['kind']}{eps}"
