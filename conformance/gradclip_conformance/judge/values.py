"""The numbers of a reply: elements, norms, gradients that must not change, and NaN that must show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from gradclip_adapters.contract import Array, Reply

from ..cases.model import Case, ReturnedNorm, Values
from ..cases.readable import SHOWN_ELEMENTS, float64_values, readable_array
from ..oracle.bounds import error_bounds
from ..oracle.formats import FORMATS, float_quotient
from ..oracle.model import nonfinite_consequence, nonfinite_norm
from ..oracle.predict import decoded, narrowest, predict
from .answers import Replied
from .context import Context
from .measure import expected_arrays, measure, norm_distance, norm_value, same_bits
from .verdict import Verdict
from .wording import distance_sentence, what_happened

__all__ = ["not_silent", "returned_norm", "untouched", "values"]


def values(context: Context, expectation: Values, results: Sequence[Array | None]) -> Verdict:
    """The included gradients are what the formula gives."""
    case = context.case
    found = measure(case, predict(case), results, case.included, context.flushes_subnormals)
    if found.grade != "pass":
        excused = expectation.leaves_range and _left_range(case, results)
        status = "fail" if expectation.wide else "quality" if excused else found.grade
        return _elsewhere(case, results, status, distance_sentence(case, found), found.ulp)
    if case.operation == "clip_by_value" and (flipped := _flipped_zero(context, results)) is not None:
        detail = f"Gradient {flipped}: a zero inside the range came back with the other sign."
        return _elsewhere(case, results, "fail", detail, 0.0)
    return Verdict("pass", ulp=found.ulp)


def _left_range(case: Case, results: Sequence[Array | None]) -> bool:
    """Whether every included element is what arithmetic makes of a step that left the range.

    A coefficient that underflows, or a norm that overflows, makes zeros; a product that overflows makes infinities with
    the elements' signs; one infinity divided by another, or a refusal to go on from an infinite norm, makes NaN.
    """
    pairs = [(given, got) for i in case.included if (given := case.gradients[i].array) and (got := results[i])]
    before = np.concatenate([float64_values(given) for given, _ in pairs])
    after = np.concatenate([float64_values(got) for _, got in pairs])
    with np.errstate(invalid="ignore"):
        return any(np.array_equal(after, before * what, equal_nan=True) for what in (0.0, math.inf, math.nan))


def _elsewhere(case: Case, results: Sequence[Array | None], status: str, detail: str, distance: float) -> Verdict:
    """A finding about results that are not where they were expected."""
    expected = {"gradients": expected_arrays(case, predict(case).gradients)}
    observed = {"gradients": [readable_array(array) for array in results[:SHOWN_ELEMENTS]]}
    return Verdict(status, detail, distance, expected, observed)


def _flipped_zero(context: Context, results: Sequence[Array | None]) -> int | None:
    """The first gradient in which a zero has changed its sign, where no bound is a zero itself."""
    case = context.case
    high = float(case.options["max"])
    if context.through_optimizer or not float(case.options.get("min", -high)) < 0 < high:
        return None
    for i in case.included:
        given, got = case.gradients[i].array, results[i]
        if given is None or got is None:
            continue
        before, after = float64_values(given), float64_values(got)
        if (np.signbit(before) != np.signbit(after))[before == 0].any():
            return i
    return None


def returned_norm(case: Case, expectation: ReturnedNorm, reply: Reply) -> Verdict:
    """The norm that is returned is that of the included gradients before the clip."""
    expected, observed = _expected_norm(case), {"norm": readable_array(reply.norm)}
    size = expected if isinstance(expected, float) else float_quotient(expected, Fraction(1))
    shown = {"norm": size if math.isfinite(size) else str(size)}
    if reply.norm is None:
        return Verdict("fail", f"The norm is {size:g}, and none was returned.", expected=shown, observed=observed)
    try:
        value = norm_value(reply.norm)
    except ValueError as error:
        return Verdict("fail", f"{str(error).capitalize()}.", expected=shown, observed=observed)
    if isinstance(expected, float):
        if value == expected or (math.isnan(value) and math.isnan(expected)):
            return Verdict("pass")
        return Verdict("fail", f"The norm is {expected}, and {value} was returned.", math.inf, shown, observed)
    tensors = decoded(case)
    elements = sum(len(tensor) for i in case.included if (tensor := tensors[i]) is not None)
    errors = error_bounds(FORMATS[narrowest(case)], case.norm_type, elements, size)
    distance = norm_distance(reply.norm, expected, narrowest(case))
    if distance <= errors.norm_budget:
        return Verdict("pass", ulp=distance)
    within = distance <= errors.norm_bound and not expectation.wide
    detail = (
        f"The norm {value:g} is {distance:.3g} ulp of {narrowest(case)} from the exact one, {size:g}; "
        f"the budget is {errors.norm_budget:.3g}."
    )
    return Verdict("quality" if within else "fail", detail, distance, shown, observed)


def _expected_norm(case: Case) -> Fraction | float:
    """The exact norm; a float where it is not finite."""
    bounds = predict(case).norms[0]
    if bounds is not None:
        return bounds.middle
    tensors = decoded(case)
    total = nonfinite_norm([tensor for i in case.included if (tensor := tensors[i]) is not None])
    return math.nan if total is None else total


def untouched(context: Context, indices: Sequence[int], reply: Reply) -> Verdict:
    """These gradients come back bit for bit."""
    case = context.case
    for i in indices:
        given, got = case.gradients[i].array, reply.gradients[i]
        if given is None or same_bits(given, got, context.through_optimizer):
            continue
        if context.flushes_subnormals and got is not None and _differs_in_subnormals_only(given, got):
            continue
        why = "is excluded" if not case.gradients[i].need_clip else "is not to be changed by the clip"
        detail = f"Gradient {i} ({given.dtype}) {why}, and did not come back bit for bit: {_difference(given, got)}."
        expected, observed = {"gradients": [readable_array(given)]}, {"gradients": [readable_array(got)]}
        distance = measure(case, predict(case), reply.gradients, [i]).ulp if case.gradients[i].need_clip else None
        return Verdict("fail", detail, distance, expected, observed)
    return Verdict("pass", ulp=0.0)


def _difference(given: Array, got: Array | None) -> str:
    """In what an array that is not the same bit for bit differs first."""
    if got is None or (given.dtype, given.shape) != (got.dtype, got.shape):
        return "it is None" if got is None else f"it is {got.dtype} of the shape {got.shape}"
    before, after = given.bits().ravel(), got.bits().ravel()
    place = int(np.argmax(before != after))
    was, became = float64_values(given)[place], float64_values(got)[place]
    return f"element {place} was {was} and is {became}, bits {before[place]:#x} and {after[place]:#x}"


def _differs_in_subnormals_only(given: Array, got: Array) -> bool:
    smallest = float(FORMATS[given.dtype].smallest_normal)
    before, after = float64_values(given), float64_values(got)
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    return given.dtype == got.dtype and bool((same | ((abs(before) < smallest) & (after == 0))).all())


def not_silent(context: Context, reply: Reply) -> Verdict:
    """Of a norm that is not finite the consequence shows: what the formula gives, or NaN everywhere."""
    case = context.case
    tensors = decoded(case)
    groups = [list(case.included)] if case.operation == "clip_by_global_norm" else [[i] for i in case.included]
    for group in groups:
        total = nonfinite_norm([tensor for i in group if (tensor := tensors[i]) is not None])
        if total is None:
            # A finite gradient that is clipped by its own norm is not touched by its neighbour's NaN.
            found = measure(case, predict(case), reply.gradients, group, context.flushes_subnormals)
            if found.grade == "fail":
                return _elsewhere(case, reply.gradients, "fail", distance_sentence(case, found), found.ulp)
        elif (silent := _silent_group(case, group, total, reply)) is not None:
            return silent
    return Verdict("pass")


def _silent_group(case: Case, group: Sequence[int], total: float, reply: Reply) -> Verdict | None:
    tensors = decoded(case)
    results = [float64_values(array) for i in group if (array := reply.gradients[i]) is not None]
    formula = [nonfinite_consequence(tensor, total) for i in group if (tensor := tensors[i]) is not None]
    if all(np.isnan(result).all() for result in results):
        return None
    if all(np.array_equal(r, f, equal_nan=True) for r, f in zip(results, formula, strict=True)):
        return None
    detail = (
        f"The norm is {total}; neither the formula's result, nor NaN everywhere, nor an error: "
        f"it {what_happened(case, Replied(reply))}."
    )
    expected: Any = {"gradients": [list(map(str, one[:SHOWN_ELEMENTS])) for one in formula[:SHOWN_ELEMENTS]]}
    observed = {"gradients": [readable_array(array) for array in reply.gradients[:SHOWN_ELEMENTS]]}
    return Verdict("fail", detail, expected=expected, observed=observed)
