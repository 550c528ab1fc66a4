"""Check the verdicts on rows of the sampler. Each part of an answer is judged, and names the broken rule.

Each wrong function here is wrong in one part only. A few small rows suffice, because all rows are judged alike.
"""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gradclip_spec
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.judge.model import Claim
from gradclip_conformance.oracle.formula import Formula
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import PlannedCell
from gradclip_conformance.run.runner import run_cell
from gradclip_conformance.sampler.rows import list_cases
from gradclip_reports.records import Cell

Clip = Callable[..., Any]

SMALL = {"size": {"s4", "s9", "s33"}, "number": {"n1", "n2", "n3", "n10"}}
FINITE = {**SMALL, "data": {"numbers", "constant", "negative", "edges"}, "magnitude": {"ordinary"}}
ABOVE = {**FINITE, "relation": {"above", "far-above", "slightly-above"}, "excluded": {"all-in"}, "none": {"all-there"}}
NAN = {**SMALL, "data": {"nan-first", "nan-middle", "nan-last"}, "excluded": {"all-in"}}
WRITTEN = {**ABOVE, "layout": {"contiguous", "fortran", "strided"}, "repeated": {"once"}}
INFINITE = {**SMALL, "data": {"infinity-first", "infinity-middle", "infinity-last"}, "excluded": {"all-in"}}


def judge_rows(
    function: Clip,
    levels: Mapping[str, Collection[str]],
    *,
    operation: str = "clip_by_global_norm",
    features: Sequence[str] = (),
    in_place: bool | None = None,
    claims: Sequence[Claim] = (),
) -> list[Cell]:
    """Return the cells of at most ten rows that have one of the given levels on each axis."""
    connection = InProcess(PlainFunction(function, operation, dtypes=("float32", "float64"), in_place=in_place))
    (subject,) = connection.description.subjects
    subject = replace(subject, features=(*subject.features, *features))
    fitting = (row for _, row in list_cases(subject, 4000) if has_levels(row.levels, levels))
    rows = list(itertools.islice(fitting, 10))
    assert len(rows) > 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return [run_cell(connection, PlannedCell(subject, row, None), 30, claims) for row in rows]


def has_levels(row: Mapping[str, str], levels: Mapping[str, Collection[str]]) -> bool:
    return row["repeated"] != "threaded" and all(row[axis] in words for axis, words in levels.items())


def clip(grads: Any, clip_norm: float, norm_type: float = 2.0) -> tuple[list[Any], float]:
    clipped, norm = gradclip_spec.clip_by_global_norm(list(grads), clip_norm, norm_type=norm_type)
    return [None if gradient is None else gradient.copy() for gradient in clipped], float(norm)


def returns_no_norm(grads: Any, *, clip_norm: float, norm_type: float = 2.0) -> Any:
    # The first call of a function shows whether it returns a norm.
    clipped, norm = clip(grads, clip_norm, norm_type)
    return clipped, (norm if sum(map(np.size, grads)) < 4 else None)


def returns_two_norms(grads: Any, *, clip_norm: float, norm_type: float = 2.0) -> Any:
    clipped, norm = clip(grads, clip_norm, norm_type)
    return clipped, np.array([norm, norm])


def returns_half_the_norm(grads: Any, *, clip_norm: float, norm_type: float = 2.0) -> Any:
    clipped, norm = clip(grads, clip_norm, norm_type)
    return clipped, norm / 2 if math.isfinite(norm) else 1.0


def changes_what_was_passed(grads: Any, *, clip_norm: float) -> Any:
    clipped, _ = clip(grads, clip_norm)
    np.negative(grads[0], out=grads[0])
    return clipped


def changes_random_numbers(grads: Any, *, clip_norm: float) -> Any:
    random.random()
    return clip(grads, clip_norm)[0]


def widens(grads: Any, *, clip_norm: float) -> Any:
    return [gradient.astype(np.float64) for gradient in clip(grads, clip_norm)[0]]


def refuses(grads: Any, *, clip_norm: float) -> Any:
    raise ArithmeticError("no result")


def writes_results(grads: Any, *, clip_norm: float) -> Any:
    clipped, _ = clip(grads, clip_norm)
    for gradient, result in zip(grads, clipped, strict=True):
        gradient[...] = result
    return clipped


def returns_what_it_wrote(grads: Any, *, clip_norm: float) -> Any:
    writes_results(grads, clip_norm=clip_norm)
    return grads


def writes_and_halves(grads: Any, *, clip_norm: float) -> Any:
    clipped = writes_results(grads, clip_norm=clip_norm)
    for gradient in grads:
        gradient[...] = gradient / 2
    return clipped


def returns_as_given(grads: Any, *, clip_norm: float, norm_type: float = 2.0) -> Any:
    return list(grads), clip(grads, clip_norm, norm_type)[1]


def returns_ones(grads: Any, *, clip_norm: float, norm_type: float = 2.0) -> Any:
    """Return NaN in place of infinity, and ones elsewhere."""
    results = [None if g is None else np.where(np.isinf(g), math.nan, 1).astype(g.dtype) for g in grads]
    return results, clip(grads, clip_norm, norm_type)[1]


@pytest.mark.parametrize(
    ("function", "levels", "in_place", "rule"),
    [
        (returns_no_norm, ABOVE, None, "returned-norm"),
        (returns_two_norms, ABOVE, None, "returned-norm"),
        (returns_half_the_norm, ABOVE, None, "returned-norm"),
        (returns_half_the_norm, INFINITE, None, "returned-norm"),
        (changes_random_numbers, ABOVE, None, "surroundings-kept"),
        (widens, {**ABOVE, "dtype": {"float32"}}, None, "dtype-kept"),
        # Results must show that a norm is not finite.
        (returns_as_given, NAN, None, "nan-not-silent"),
        (returns_as_given, INFINITE, None, "nan-not-silent"),
        (returns_ones, INFINITE, None, "nan-not-silent"),
        # A changed input is named unless it is the result.
        (changes_what_was_passed, WRITTEN, False, "inputs-not-mutated"),
        (changes_what_was_passed, WRITTEN, None, "inputs-not-mutated"),
        (returns_what_it_wrote, WRITTEN, False, "inputs-not-mutated"),
        (returns_what_it_wrote, WRITTEN, None, None),
        # Written elements are judged apart from the results.
        (writes_results, WRITTEN, True, None),
        (writes_and_halves, WRITTEN, True, "in-place-written"),
    ],
)
def test_broken_part_of_an_answer_is_named(
    function: Clip, levels: dict[str, set[str]], in_place: bool | None, rule: str | None
) -> None:
    expected = ("pass", None) if rule is None else ("fail", f"global-norm.{rule}")

    assert {(cell.status, cell.breaks) for cell in judge_rows(function, levels, in_place=in_place)} == {expected}


def returns_a_rough_norm(grads: Any, *, clip_norm: float, norm_type: float = 2.0) -> Any:
    clipped, norm = clip(grads, clip_norm, norm_type)
    return clipped, norm * (1 + 3 * 2.0**-23)


@pytest.mark.thorough(sample=0)
def test_poor_norm_is_of_poor_quality() -> None:
    # The error is beyond the budget of 2 ulp, and within the error bound of a sum in float32.
    levels = {**FINITE, "size": {"s33", "s513"}, "data": {"numbers"}, "dtype": {"float32"}, "norm": {"no-norm"}}

    assert {cell.status for cell in judge_rows(returns_a_rough_norm, levels)} == {"quality"}


@pytest.mark.parametrize(("levels", "status"), [(NAN, "pass"), (ABOVE, "fail")], ids=["nan", "finite"])
def test_error_is_right_only_for_a_nonfinite_norm(levels: dict[str, set[str]], status: str) -> None:
    assert {cell.status for cell in judge_rows(refuses, levels)} == {status}


def divide(grads: Any, clip_norm: float, formula: str) -> Any:
    """Clip by a formula with an epsilon of 0.25."""
    norm, eps = clip(grads, clip_norm)[1], 0.25
    divisors = {
        "coefficient": clip_norm / (norm + eps) if norm + eps > clip_norm else 1.0,
        "max-denominator": clip_norm / (max(norm, clip_norm) + eps),
        "min-numerator": min(norm, clip_norm) / (norm + eps),
    }
    return [(g.astype(np.longdouble) * divisors[formula]).astype(g.dtype) for g in grads]


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("formula", ["coefficient", "max-denominator", "min-numerator"])
def test_answer_of_a_claimed_formula_is_documented(formula: str) -> None:
    def clip_by_formula(grads: Any, *, clip_norm: float) -> Any:
        return divide(grads, clip_norm, formula)

    claims = [Claim("*", ("*",), Formula(formula, 0.25), None, "It adds an epsilon.", "https://example.org/docs")]
    levels = {**ABOVE, "dtype": {"float32", "float64"}}

    assert {cell.status for cell in judge_rows(clip_by_formula, levels)} == {"fail"}
    found = judge_rows(clip_by_formula, levels, claims=claims)
    assert {(cell.status, cell.quote) for cell in found} == {("documented", "It adds an epsilon.")}
    # Another epsilon does not excuse the answer.
    other = [Claim("*", ("*",), Formula(formula, 0.5), None, "It adds more.", "https://example.org/docs")]
    assert {cell.status for cell in judge_rows(clip_by_formula, levels, claims=other)} == {"fail"}


def flushes_subnormals(grads: Any, *, max: float) -> Any:
    clipped = [None if one is None else np.clip(one, -max, max).astype(one.dtype) for one in grads]
    small = [one is not None and np.abs(one) < np.finfo(one.dtype).tiny for one in clipped]
    return [
        None if one is None else np.where(tiny, one.dtype.type(0), one)
        for one, tiny in zip(clipped, small, strict=True)
    ]


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("declared", [True, False])
def test_flushing_in_a_clip_by_value_is_excused_if_it_is_declared(declared: bool) -> None:
    levels = {"data": ["subnormals"], "size": ["s9", "s33", "s513"]}
    features = ["flushes_subnormals"] if declared else []

    cells = judge_rows(flushes_subnormals, levels, operation="clip_by_value", features=features)

    assert {cell.status for cell in cells} == {"pass" if declared else "fail"}
