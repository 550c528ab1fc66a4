"""Write the lines of a script that clip, and that fail if the answer is wrong.

A script turns the judge's error bound into a tolerance, and rounds it up. So the script never fails on an answer that
the judge accepts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from textwrap import indent
from typing import Any

import numpy as np

from gradclip_adapters.contract import Array, EntryPoint

from ..cases.literals import NoScript, write_array
from ..cases.model import Case
from ..oracle.arrays import round_elements
from ..oracle.formats import FORMATS, divide_to_float, read_float64_values, ulp
from ..oracle.formula import list_nonfinite_norms, predict_nonfinite
from ..oracle.model import ExpectedArray
from ..oracle.predict import predict
from ..oracle.question import find_narrowest, list_norm_groups


@dataclass(frozen=True)
class Wanted:
    """The expected values of one gradient. None expects that no gradient comes back."""

    values: np.ndarray[Any, Any] | None
    #: The distance that an element may have from its value: in ulp of a dtype, and as a relative tolerance.
    ulps: float = 0.0
    dtype: str = ""
    tolerance: float = 0.0
    #: A gradient and a factor. The values are their rounded product.
    product: tuple[np.ndarray[Any, Any], float] | None = None
    #: Numbers below this one count as zero. It is the smallest normal number if the entry point flushes subnormal ones.
    flushed_below: float = 0.0


def assert_equal(wanted: Mapping[int, Wanted]) -> str:
    """Return the lines for each gradient, or one loop if the lines are the same for all."""
    if len({_assert("result", one) for one in wanted.values()}) == 1 and len(wanted) > 1:
        chosen = "results" if list(wanted) == list(range(len(wanted))) else f"[results[i] for i in {tuple(wanted)}]"
        return f"for result in {chosen}:\n" + indent(_assert("result", next(iter(wanted.values()))), "    ")
    return "\n".join(_assert(f"results[{i}]", one) for i, one in wanted.items())


def _assert(result: str, wanted: Wanted) -> str:
    if wanted.values is None:
        return f'assert {result} is None, f"expected: no gradient; observed: {{{result}}}"'
    values = _write_source(wanted)
    if wanted.ulps or wanted.flushed_below:
        return _assert_close(result, wanted)
    line = f"np.testing.assert_array_equal({result}, {values})"
    if wanted.values.ndim:
        return line
    # NumPy's functions treat an array with one element as equal to a number.
    return f'{line}\nassert np.shape({result}) == (), f"expected: {values}; observed: {{{result}}}"'


def _assert_close(result: str, wanted: Wanted) -> str:
    # NumPy has no bfloat16. The spacing of bfloat16 is the spacing of float32 times a power of two.
    known = "float32" if wanted.dtype == "bfloat16" else wanted.dtype
    spacing = 2 ** (FORMATS[known].precision - FORMATS[wanted.dtype].precision)
    limit = repr(math.floor(wanted.ulps) * spacing)
    observed = f"np.asarray({result})"
    near = f"abs({observed} - expected) <= {limit} * np.spacing(abs(expected))"
    if wanted.values is not None and not np.isfinite(wanted.values).all():
        # The difference of two infinities, or of two NaN, is NaN.
        near = f"({near}) | ({observed} == expected) | (np.isnan({observed}) & np.isnan(expected))"
    if wanted.flushed_below:
        near = f"({near}) | (np.maximum(abs({observed}), abs(expected)) < {wanted.flushed_below!r})"
    why = "# The function flushes subnormal numbers, so they count as zeros.\n" if wanted.flushed_below else ""
    return (
        f'{why}expected = np.array({_write_source(wanted)}, "{known}")\n'
        f"assert np.shape({result}) == expected.shape and np.all({near}), "
        f'f"expected: {{expected}}; observed: {{{result}}}"'
    )


def format_tolerance(tolerance: float) -> str:
    """Return a tolerance in three digits, rounded up."""
    return repr(float(f"{tolerance * 1.006:.2e}"))


def list_out_of_range_ways(case: Case) -> Iterator[dict[int, Wanted]]:
    """Yield the results of arithmetic whose intermediate step leaves the range (see `Values`)."""
    arrays = {i: array for i in case.included if (array := case.gradients[i].array) is not None}
    for what in (0.0, math.inf, math.nan):
        yield {i: Wanted(_reshape(array) * what) for i, array in arrays.items()}
    steps = {i: _find_subnormal_coefficients(array.dtype, predict(case).gradients[i]) for i, array in arrays.items()}
    for ways in zip(*steps.values(), strict=True):
        yield {i: Wanted(_reshape(array) * what) for (i, array), what in zip(arrays.items(), ways, strict=True)}


def _find_subnormal_coefficients(dtype: str, expected: ExpectedArray | None) -> list[float]:
    """Return the two subnormal numbers next to the exact coefficient, or none if the coefficient is a normal number."""
    form = FORMATS[dtype]
    if expected is None or expected.factor >= form.smallest_normal:
        return []
    steps = math.floor(expected.factor / form.smallest_subnormal)
    return [float(form.smallest_subnormal * number) for number in (steps, steps + 1)]


def _write_source(wanted: Wanted) -> str:
    """Return the values as source code. Many values are written as a product that is not rounded."""
    assert wanted.values is not None
    try:
        return write_array(wanted.values)
    except NoScript:
        if wanted.product is None:
            raise
        gradient, factor = wanted.product
        return f"{write_array(gradient)} * {factor!r}"


def assert_one_of(ways: Iterable[Mapping[int, Wanted]]) -> str:
    """Return lines that accept each of several answers."""
    first, *others = ways = list(ways)
    if not others:
        return assert_equal(first)
    tolerance = max(one.tolerance for way in ways for one in way.values())
    flushed = max(one.flushed_below for way in ways for one in way.values())
    lists = [[write_array(one.values) for one in way.values() if one.values is not None] for way in ways]
    written = ", ".join(f"[{', '.join(way)}]" for way in lists)
    close = f"np.allclose(result, value, {format_tolerance(tolerance)}, {flushed!r}, equal_nan=True)"
    return (
        f"expected = [{written}]\n"
        f"agrees = [all({close} for result, value in zip(results, way)) for way in expected]\n"
        'assert any(agrees), f"expected: one of {expected}; observed: {results}"'
    )


def list_inputs(case: Case, indices: Iterable[int]) -> dict[int, Wanted]:
    """Return the gradients that were passed, as expected values."""
    arrays = {i: case.gradients[i].array for i in indices}
    return {i: Wanted(None if array is None else _reshape(array)) for i, array in arrays.items()}


def allow_flushing(wanted: Mapping[int, Wanted], case: Case, entry_point: EntryPoint) -> dict[int, Wanted]:
    """Return the values, with subnormal numbers and zeros equal if the entry point flushes subnormal numbers."""
    allowed = dict(wanted)
    for i, one in wanted.items():
        array = case.gradients[i].array
        if array is None or one.values is None or "flushes_subnormals" not in entry_point.features:
            continue
        smallest = float(FORMATS[array.dtype].smallest_normal)
        if ((one.values != 0) & (abs(one.values) < smallest)).any():
            allowed[i] = replace(one, dtype=array.dtype, flushed_below=smallest)
    return allowed


def predict_values(case: Case, entry_point: EntryPoint, *, wide: bool = False) -> dict[int, Wanted]:
    """Return the values that the neutral rule gives. Leave out gradients for which the rule gives no values."""
    wanted = {}
    for i, gradient in enumerate(case.gradients):
        if gradient.array is None:
            # An optimizer does not change a parameter without a gradient.
            wanted[i] = Wanted(np.zeros(1) if "optimizer" in entry_point.features else None)
        elif predict(case).gradients[i] is not None:
            wanted[i] = _predict_finite(case, i, wide=wide)
    return allow_flushing(wanted, case, entry_point)


def _predict_finite(case: Case, index: int, *, wide: bool = False) -> Wanted:
    given, prediction = case.gradients[index].array, predict(case)
    expected, errors = prediction.gradients[index], prediction.errors[index]
    assert given is not None
    assert expected is not None
    values = _reshape(Array(given.dtype, given.shape, round_elements(expected, given.dtype)))
    if expected.is_unchanged and not prediction.near[index]:
        return Wanted(values)
    ulps = errors.clip_budget if wide else errors.clip_bound
    # With several dtypes, the norm may have been rounded to the coarsest one.
    coarser = 2.0 ** (FORMATS[given.dtype].precision - FORMATS[find_narrowest(case)].precision)
    factor = divide_to_float(expected.factor, Fraction(1))
    tolerance = ulps * coarser * max(list_relative_ulps(values, given.dtype), default=0.0)
    # A value that is not exact is itself rounded.
    exact = bool(np.isfinite(values).all()) and [*map(Fraction, values.ravel())] == [*expected.list_fractions()]
    return Wanted(values, ulps * coarser + (0.0 if exact else 0.5), given.dtype, tolerance, (_reshape(given), factor))


def list_relative_ulps(values: np.ndarray[Any, Any], dtype: str) -> Iterator[float]:
    """Yield one ulp of each nonzero number, relative to the number."""
    for value in np.unique(np.abs(values)).tolist():
        if value and math.isfinite(value):
            yield float(ulp(Fraction(value), FORMATS[dtype]) / Fraction(value))


def list_nonfinite_ways(case: Case) -> list[dict[int, Wanted]]:
    """Return the right answers to norms that are not finite: for each norm the formula's result, or NaN everywhere."""
    ways: list[list[dict[int, Wanted]]] = []
    for group in list_norm_groups(case):
        given = {i: _reshape(array) for i in group if (array := case.gradients[i].array) is not None}
        totals = list_nonfinite_norms(given.values())
        if not totals:
            ways.append([{i: _predict_finite(case, i) for i in group}])
            continue
        # NaN everywhere is right, whatever the norm is.
        norms = [*(norm for norm in totals if norm == math.inf), math.nan]
        ways.append([{i: Wanted(predict_nonfinite(values, norm)) for i, values in given.items()} for norm in norms])
    return [{i: wanted for part in parts for i, wanted in part.items()} for parts in product(*ways)]


def _reshape(array: Array) -> np.ndarray[Any, Any]:
    return read_float64_values(array).reshape(array.shape)
