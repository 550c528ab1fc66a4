"""Expect the right norm to be returned, and each slice over some axes to be clipped by its own norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from gradclip_adapters.arrays import read_axes
from gradclip_adapters.contract import Array, Reply
from gradclip_reports.statuses import Status

from ...cases.model import Case
from ...cases.readable import show_array
from ...oracle.formats import FORMATS, divide_to_float
from ...oracle.long_doubles import DOUBT, make_whole_call
from ...oracle.model import ErrorBounds
from ...oracle.predict import predict
from ...oracle.question import find_narrowest, find_widest_range
from ..arrays import measure_norm_distance, read_norm
from ..expectation import Expectation, Part, accept_error_beyond_range
from ..fingerprint import describe_results
from ..model import Answer, Context, Script, Verdict, join_lines
from ..script_lines import assert_equal, format_tolerance, list_relative_ulps, predict_values
from .elements import Values, list_nonfinite_totals

CUT = """# Each slice over the axes has a norm of its own.
moved = [np.moveaxis(np.asarray(result), {kept}, range({count})) for result in results]
results = [part for result in moved for part in result.reshape(-1, np.prod(result.shape[{count}:]))]"""


@dataclass(frozen=True)
class ReturnedNorm(Expectation):
    """The returned norm is the norm of the included gradients before the clip.

    `wide` means the same as in `Values`. `quick`: the right norm is computed in long doubles, which suits long calls.
    """

    name: ClassVar[str] = "returned-norm"
    rule: ClassVar[str] = "returned-norm"
    about: ClassVar[str] = "norm"
    wide: bool = False
    quick: bool = False

    def judge_answers(self, context: Context, answers: Sequence[Answer]) -> Verdict | None:
        """Accept an error if the dtype cannot hold the norm."""
        return accept_error_beyond_range(context, answers)

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Compare the norm with the right one."""
        case, norm = context.case, replies[0].norm
        if self.quick:
            right, errors = make_whole_call(case).find_norm()
            return _judge_norm(case, norm, [right], errors, doubt=DOUBT)
        return _judge_norm(case, norm, _list_right_norms(case), predict(case).widest, wide=self.wide)

    def describe(self, case: Case) -> Sequence[Part]:
        """Return the norm, and the largest error that an answer may have."""
        prediction = predict(case)
        bounds = prediction.norms[0]
        middle = None if bounds is None else float(bounds.middle)
        norm = "not finite" if middle is None else f"{middle!r} ({middle.hex()})"
        return (f"the norm {norm}, within {prediction.widest.norm_budget:g} ulp",)

    def write_script(self, script: Script) -> str:
        """Return lines that compare the norm with the exact one."""
        return join_lines(script.clip_lines(), self._assert_norm(script.case))

    def _assert_norm(self, case: Case) -> str:
        prediction = predict(case)
        if (bounds := prediction.norms[0]) is None:
            totals = list_nonfinite_totals(case, case.included)
            if len(totals) > 1:
                return 'assert str(float(norm)) in ("nan", "inf"), f"expected: nan or inf; observed: {norm}"'
            return f"np.testing.assert_equal(float(norm), {totals[0]!r})"
        ulps = prediction.widest.norm_budget if self.wide else prediction.widest.norm_bound
        expected = float(bounds.middle)
        tolerance = ulps * max(list_relative_ulps(np.array([expected]), find_narrowest(case)), default=0.0)
        return f"np.testing.assert_allclose(float(norm), {expected!r}, rtol={format_tolerance(tolerance)})"


def _judge_norm(
    case: Case,
    norm: Array | None,
    rights: Sequence[Fraction | float],
    errors: ErrorBounds,
    *,
    wide: bool = False,
    doubt: float = 0.0,
) -> Verdict:
    """Compare a returned norm with the right ones. `doubt` is the largest error, in ulp, of the right norm itself."""
    observed, expected = {"norm": show_array(norm)}, rights[0]
    size = expected if isinstance(expected, float) else divide_to_float(expected, Fraction(1))
    shown = {"norm": size if math.isfinite(size) else str(size)}
    if norm is None:
        detail = f"The norm is {size:g}, and none was returned."
        return Verdict(Status.FAIL, detail, expected=shown, observed=observed)
    try:
        value = read_norm(norm)
    except ValueError as error:
        return Verdict(Status.FAIL, f"{str(error).capitalize()}.", expected=shown, observed=observed)
    if isinstance(expected, float):
        if any(value == one or (math.isnan(value) and math.isnan(one)) for one in rights):
            return Verdict(Status.PASS)
        detail = f"The norm is {' or '.join(map(str, rights))}, and {value} was returned."
        return Verdict(Status.FAIL, detail, math.inf, shown, observed)
    if (narrow := _describe_narrower(case, norm)) is not None:
        return Verdict(Status.FAIL, narrow, expected=shown, observed=observed)
    # A norm beyond the range of the narrowest dtype may be within that of another one.
    measured = find_narrowest(case) if math.isfinite(value) else find_widest_range(case)
    distance = max(0.0, measure_norm_distance(norm, expected, measured) - doubt)
    if distance <= errors.norm_budget:
        return Verdict(Status.PASS, ulp=distance)
    within = distance <= errors.norm_bound and not wide
    detail = (
        f"The norm {value:g} is {distance:.3g} ulp of {find_narrowest(case)} from the exact one, {size:g}; "
        f"the budget is {errors.norm_budget:.3g}."
    )
    return Verdict(Status.QUALITY if within else Status.FAIL, detail, distance, shown, observed)


def _describe_narrower(case: Case, norm: Array) -> str | None:
    """Return a sentence if the norm has a dtype of fewer digits than every gradient, or None otherwise."""
    if not case.included or (
        norm.dtype in FORMATS and FORMATS[norm.dtype].precision >= FORMATS[find_narrowest(case)].precision
    ):
        return None
    return f"The norm of gradients in {find_narrowest(case)} was returned as {norm.dtype}."


def _list_right_norms(case: Case) -> tuple[Fraction | float, ...]:
    """Return the exact norm. If it is not finite, return the floats that are right."""
    bounds = predict(case).norms[0]
    if bounds is not None:
        return (bounds.middle,)
    return list_nonfinite_totals(case, case.included) or (math.nan,)


@dataclass(frozen=True)
class NormOverAxes(Expectation):
    """The elements are those of a clip by norm in which each slice over the axes is a gradient of its own."""

    name: ClassVar[str] = "norm-over-axes"
    judges_elements: ClassVar[bool] = True

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Compare each slice with the formula's result for it."""
        axes = read_axes(context.case.options) or []
        parts = tuple(part for result in replies[0].gradients if result is not None for part in _cut(result, axes))
        slices = replace(context, case=_cut_gradients(context.case))
        return Values().judge_replies(slices, [replace(replies[0], gradients=parts)])

    def describe(self, case: Case) -> Sequence[Part]:
        """Return the expected slices."""
        slices = _cut_gradients(case)
        return ("each slice is clipped by its own norm", *describe_results(slices, "Values"))

    def write_script(self, script: Script) -> str:
        """Return lines that cut the results into slices, and compare these with the formula's results."""
        case, slices = script.case, _cut_gradients(script.case)
        # All gradients of a case have the same number of axes.
        (dimensions,) = {len(gradient.array.shape) for gradient in case.gradients if gradient.array is not None}
        kept = _list_kept(dimensions, read_axes(case.options) or [])
        cut = CUT.format(kept=kept, count=len(kept))
        right = predict_values(slices, script.entry_point)
        return join_lines(script.clip_lines(), cut, assert_equal(right))


def _cut_gradients(case: Case) -> Case:
    """Return the clip by norm in which each slice is a gradient of its own."""
    axes = read_axes(case.options) or []
    slices = [
        replace(gradient, array=part)
        for gradient in case.gradients
        if gradient.array is not None
        for part in _cut(gradient.array, axes)
    ]
    options = {name: value for name, value in case.options.items() if name != "axes"}
    return replace(case, gradients=tuple(slices), options=options)


def _cut(array: Array, axes: Sequence[int]) -> list[Array]:
    """Return the slices of an array over some axes, each as a vector."""
    kept = _list_kept(len(array.shape), axes)
    moved: np.ndarray[Any, Any] = np.moveaxis(array.bits(), kept, list(range(len(kept))))
    count = int(np.prod([array.shape[axis] for axis in kept], dtype=int))
    return [Array(array.dtype, part.shape, part.tobytes()) for part in moved.reshape(count, -1)]


def _list_kept(dimensions: int, axes: Sequence[int]) -> list[int]:
    """Return the axes over which no norm goes."""
    return [axis for axis in range(dimensions) if axis not in axes and axis - dimensions not in axes]
