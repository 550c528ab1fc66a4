"""The lines of a script that call its function `call` and fail where the answer is not what the case expects.

What a script tolerates is the error bound of the judge as a tolerance that is relative to each element, the largest of
a gradient: it never blames an answer that the judge lets pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from gradclip_adapters.contract import Array, Subject

from .case import (
    Case,
    InputsKept,
    InputsWritten,
    NotSilent,
    RaisesOnNonfinite,
    Refused,
    Repeatable,
    ReturnedNorm,
    Structure,
    Untouched,
    Values,
)
from .distances import rounded
from .expected import nonfinite_consequence, nonfinite_norm
from .formats import FORMATS, float_quotient, ulp
from .literals import NoScript, array_literal
from .predict import decoded, narrowest, predict
from .show import float64_values

__all__ = ["check_of"]

CALL = "results, norm = call()"
CALL_THAT_RAISES = f"""try:
    {CALL}
except Exception as error:
    message = f"$rule: expected a result, and it raised {{error!r}}"
    raise AssertionError(message) from error"""
CALL_TO_BE_REFUSED = f"""try:
    {CALL}
except Exception:
    results = gradients
else:
    message = f"$rule: expected an error, and got {{results}}"
    raise AssertionError(message)"""
CALL_THAT_MAY_RAISE = f"""try:
    {CALL}
except Exception:
    raise SystemExit(0)  # an error is an answer"""


@dataclass(frozen=True)
class Wanted:
    """What is expected of one gradient; no values: that there is none."""

    values: np.ndarray[Any, Any] | None
    tolerance: float = 0.0
    #: The gradient and the factor of which the values are the rounded product.
    product: tuple[np.ndarray[Any, Any], float] | None = None


def check_of(case: Case, subject: Subject, *, raised: bool) -> str:
    """The lines, in which `$rule` and `$convert` are left to be replaced; `raised`: the framework had raised.

    Raises
    ------
    NoScript
        When the expectation is none that a script can check.
    """
    call = CALL_THAT_RAISES if raised else CALL
    everything = range(len(case.gradients))
    match case.expectation:
        case RaisesOnNonfinite(atomic=False):
            return CALL_TO_BE_REFUSED
        case Refused() | RaisesOnNonfinite():
            return f"{CALL_TO_BE_REFUSED}$convert\n{_asserts(_inputs(case, everything))}"
        case NotSilent():
            return f"{CALL_THAT_MAY_RAISE}$convert\n{_one_of(_acceptable(case), 'an error or ')}"
        case ReturnedNorm():
            return f"{call}\n{_assert_norm(case)}"
        case Structure(aspect):
            return f"{call}\n{_assert_form(case, aspect, subject)}"
        case InputsKept():
            return f"{call}\nresults = gradients$convert\n{_asserts(_inputs(case, everything))}"
        case Untouched(indices):
            return f"{call}$convert\n{_asserts(_inputs(case, indices))}"
        case Values(leaves_range=True):
            return f"{call}$convert\n{_one_of([_predicted(case, subject), *_out_of_range(case)])}"
        case Values() | InputsWritten():
            return f"{call}$convert\n{_asserts(_predicted(case, subject))}"
        case Repeatable() if raised:
            return call
    msg = f"A script cannot show what {case.id} expects: {type(case.expectation).__name__}."
    raise NoScript(msg)


def _asserts(wanted: Mapping[int, Wanted]) -> str:
    """A line for each gradient, or one for all where they are alike."""
    if len({_assert("result", one) for one in wanted.values()}) == 1 and len(wanted) > 1:
        chosen = "results" if list(wanted) == list(range(len(wanted))) else f"[results[i] for i in {tuple(wanted)}]"
        line = _assert("result", next(iter(wanted.values())))
        return f"for result in {chosen}:\n    {line}"
    return "\n".join(_assert(f"results[{i}]", one) for i, one in wanted.items())


def _assert(result: str, wanted: Wanted) -> str:
    if wanted.values is None:
        return f'assert {result} is None, f"$rule: expected no gradient, and got {{{result}}}"'
    values = _source(wanted)
    line = f'np.testing.assert_allclose({result}, {values}, rtol={wanted.tolerance!r}, err_msg="$rule")'
    if wanted.values.ndim == 0:
        # NumPy's function lets an array with one element pass for a number.
        line += f'; assert np.shape({result}) == (), f"$rule: expected {values}, and got {{{result}}}"'
    return line


def _out_of_range(case: Case) -> Iterator[dict[int, Wanted]]:
    """What arithmetic makes of a step that leaves the range (see `check_values`)."""
    for what in (0.0, math.inf, math.nan):
        arrays = {i: array for i in case.included if (array := case.gradients[i].array) is not None}
        yield {i: Wanted(_shaped(array) * what) for i, array in arrays.items()}


def _source(wanted: Wanted) -> str:
    """The values as source: where they are too many to be written out, as a product, which is not rounded."""
    assert wanted.values is not None
    try:
        return array_literal(wanted.values)
    except NoScript:
        if wanted.product is None:
            raise
        gradient, factor = wanted.product
        return f"{array_literal(gradient)} * {factor!r}"


def _one_of(ways: Iterable[Mapping[int, Wanted]], besides: str = "") -> str:
    every_way = [list(way.values()) for way in ways]
    tolerance = max(one.tolerance for way in every_way for one in way)
    lists = ", ".join(
        "[" + ", ".join(array_literal(one.values) for one in way if one.values is not None) + "]" for way in every_way
    )
    return (
        f"expected = [{lists}]\n"
        "assert any(\n    all(\n"
        f"        np.allclose(result, values, {tolerance!r}, 0.0, equal_nan=True)\n"
        "        for result, values in zip(results, way)\n    )\n"
        f'    for way in expected\n), f"$rule: expected {besides}one of {{expected}}, and got {{results}}"'
    )


def _assert_norm(case: Case) -> str:
    prediction = predict(case)
    if (bounds := prediction.norms[0]) is None:
        total = nonfinite_norm([tensor for i in case.included if (tensor := decoded(case)[i]) is not None])
        return f'np.testing.assert_equal(float(norm), {total!r}, err_msg="$rule")'
    ulps = max((one.norm_budget if _is_wide(case) else one.norm_bound for one in prediction.errors), default=0.0)
    expected = float(bounds.middle)
    tolerance = ulps * max(_relative_ulps(np.array([expected]), narrowest(case)), default=0.0)
    return f'np.testing.assert_allclose(float(norm), {expected!r}, rtol={tolerance!r}, err_msg="$rule")'


def _assert_form(case: Case, aspect: str, subject: Subject) -> str:
    arrays = [gradient.array for gradient in case.gradients]
    # An optimizer leaves a parameter without a gradient where it was.
    nothing = [1] if "optimizer" in subject.features else None
    if aspect == "dtype":
        expected: list[Any] = [None if array is None else array.dtype for array in arrays]
        agrees = "all(name is None or name in str(result.dtype) for name, result in zip(expected, results))"
    else:
        expected = [nothing if array is None else list(array.shape) for array in arrays]
        agrees = "[None if result is None else list(result.shape) for result in results] == expected"
    return f'expected = {expected}\nassert {agrees}, f"$rule: expected the {aspect} {{expected}}, and got {{results}}"'


def _inputs(case: Case, indices: Iterable[int]) -> dict[int, Wanted]:
    arrays = {i: case.gradients[i].array for i in indices}
    return {i: Wanted(None if array is None else _shaped(array)) for i, array in arrays.items()}


def _predicted(case: Case, subject: Subject) -> dict[int, Wanted]:
    """What the neutral rule gives for each gradient of which it gives something."""
    wanted = {}
    for i, gradient in enumerate(case.gradients):
        if gradient.array is None:
            # An optimizer leaves a parameter without a gradient where it was.
            wanted[i] = Wanted(np.zeros(1) if "optimizer" in subject.features else None)
        elif predict(case).gradients[i] is not None:
            wanted[i] = _finite(case, i)
    return wanted


def _finite(case: Case, index: int) -> Wanted:
    prediction, given = predict(case), case.gradients[index].array
    expected, errors = prediction.gradients[index], prediction.errors[index]
    assert given is not None
    assert expected is not None
    values = _shaped(Array(given.dtype, given.shape, rounded(expected, given.dtype)))
    if expected.is_unchanged and not prediction.near[index]:
        return Wanted(values)
    ulps = errors.clip_budget if _is_wide(case) else errors.clip_bound
    # Among several dtypes the norm may have been rounded to the coarsest.
    coarser = 2.0 ** (FORMATS[given.dtype].precision - FORMATS[narrowest(case)].precision)
    factor = float_quotient(Fraction(expected.numerator, expected.denominator), Fraction(1))
    tolerance = ulps * coarser * max(_relative_ulps(values, given.dtype), default=0.0)
    return Wanted(values, tolerance, (_shaped(given), factor))


def _relative_ulps(values: np.ndarray[Any, Any], dtype: str) -> Iterator[float]:
    """One ulp of each number that is not zero, relative to it."""
    for value in np.unique(np.abs(values)).tolist():
        if value and math.isfinite(value):
            yield float(ulp(Fraction(value), FORMATS[dtype]) / Fraction(value))


def _acceptable(case: Case) -> list[dict[int, Wanted]]:
    """The answers to a norm that is not finite: of each norm the formula's result, or NaN everywhere."""
    tensors = decoded(case)
    groups = [list(case.included)] if case.operation == "clip_by_global_norm" else [[i] for i in case.included]
    ways: list[list[dict[int, Wanted]]] = []
    for group in groups:
        shapes = {i: array.shape for i in group if (array := case.gradients[i].array) is not None}
        found = {i: tensor for i in group if (tensor := tensors[i]) is not None}
        total = nonfinite_norm(found.values())
        if total is None:
            ways.append([{i: _finite(case, i) for i in group}])
            continue
        formula = {i: Wanted(np.array(nonfinite_consequence(t, total)).reshape(shapes[i])) for i, t in found.items()}
        everywhere = {i: Wanted(np.full(shape, math.nan)) for i, shape in shapes.items()}
        ways.append([everywhere] if math.isnan(total) else [formula, everywhere])
    return [{i: wanted for part in parts for i, wanted in part.items()} for parts in product(*ways)]


def _shaped(array: Array) -> np.ndarray[Any, Any]:
    return float64_values(array).reshape(array.shape)


def _is_wide(case: Case) -> bool:
    return isinstance(case.expectation, Values | ReturnedNorm) and case.expectation.wide
