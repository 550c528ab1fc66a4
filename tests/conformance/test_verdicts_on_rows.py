"""Check the verdicts on rows of the sampler: each part of an answer is judged, and a known failure may excuse it.

Each wrong function is wrong in one part only. A few small rows suffice, because all rows are judged alike.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from runs import make_adapter, run_rows

import gradclip_spec
from gradclip_conformance.judge.model import Claim
from gradclip_conformance.known.failures import KnownFailure
from gradclip_conformance.oracle.formula import Formula
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import PlannedCell
from gradclip_conformance.run.runner import Knowledge, run_cell
from gradclip_conformance.sampler.rows import find_row
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
    in_place: bool | None = None,
    **more: Any,
) -> list[Cell]:
    return run_rows(make_adapter(function, operation, "float32+float64", in_place), levels, **more)


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


def make_known(cause: str, *effects: str) -> KnownFailure:
    parameters = (("effect", effects),) if effects else ()
    return KnownFailure(
        cause=cause, parameters=parameters, subjects=("*",), reason="", url="none found", checked="2026-11-23"
    )


KNOWN = (make_known("squares-overflow", "zeros", "norm"), make_known("squares-underflow", "norm"))


def clip_with_norm(grads: Any, clip_norm: float, norm: Any) -> list[Any]:
    factor = np.float64(1) if norm <= clip_norm else np.float64(clip_norm) / norm
    return [g if g is None or factor == 1 else (g.astype(np.float64) * factor).astype(g.dtype) for g in grads]


def sum_squares(grads: Any, dtype: type) -> Any:
    with np.errstate(all="ignore"):
        squares = [np.square(g, dtype=dtype) for g in grads if g is not None]
        return np.sqrt(sum(float(np.sum(each, dtype=np.float64)) for each in squares))


def overflow(grads: Any, *, clip_norm: float) -> Any:
    """Square in float32, so that the squares leave the range."""
    norm = sum_squares(grads, np.float32)
    return clip_with_norm(grads, clip_norm, norm), norm


def return_wrong_norm(grads: Any, *, clip_norm: float) -> Any:
    """Clip correctly, but return the norm of squares that left the range."""
    return clip_with_norm(grads, clip_norm, sum_squares(grads, np.float64)), sum_squares(grads, np.float32)


def overflow_and_drop(grads: Any, *, clip_norm: float) -> Any:
    """Square in float32, and leave None out of the results."""
    clipped, norm = overflow(grads, clip_norm=clip_norm)
    return [each for each in clipped if each is not None], norm


def flush(grads: Any, *, clip_norm: float) -> Any:
    """Return zero instead of each subnormal number."""
    norm = sum_squares(grads, np.float64)
    clipped = clip_with_norm(grads, clip_norm, norm)
    tiny = np.finfo(np.float32).tiny
    return [g if g is None else np.where(np.abs(g) < tiny, np.float32(0), g) for g in clipped], norm


SHORT, LONG = (("s2", "s4", "s9", "s33", "s513"), ("s4097", "s16385", "s65537"))


NOT_ZERO = {"far-below", "below", "slightly-below", "just-below", "at", "just-above", "slightly-above", "above"}


def judge_with_known(
    function: Clip,
    magnitude: str,
    sizes: Collection[str],
    known: Sequence[KnownFailure],
    relation: Collection[str] = NOT_ZERO,
    **levels: Collection[str],
) -> list[Cell]:
    """Return the cells of a few rows in float32. `levels` limits other axes to the given levels."""
    levels |= {"magnitude": {magnitude}, "size": sizes, "relation": relation}
    return run_rows(make_adapter(function), levels, count=4, known=known)


@pytest.mark.parametrize("sizes", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.parametrize("magnitude", ["squares-over", "squares-under"])
def test_norm_that_left_the_range_is_recognised(magnitude: str, sizes: Sequence[str]) -> None:
    cells = judge_with_known(return_wrong_norm, magnitude, sizes, KNOWN)

    assert {cell.status for cell in cells} == {"known"}
    assert {cell.breaks for cell in cells} == {"global-norm.returned-norm"}


def test_norm_that_underflows_is_recognised_if_threshold_is_zero() -> None:
    cells = judge_with_known(return_wrong_norm, "squares-under", SHORT, KNOWN, relation=("zero",))

    assert {cell.status for cell in cells} == {"known"}


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("sizes", [SHORT, LONG], ids=["short", "long"])
def test_gradients_after_an_overflow_are_recognised(sizes: Sequence[str]) -> None:
    assert "known" in {cell.status for cell in judge_with_known(overflow, "squares-over", sizes, KNOWN)}
    assert {cell.status for cell in judge_with_known(overflow, "squares-over", sizes, ())} == {"fail"}


@pytest.mark.parametrize("sizes", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.parametrize("magnitude", ["squares-over", "squares-under"])
def test_another_wrong_norm_is_not_excused(magnitude: str, sizes: Sequence[str]) -> None:
    cells = judge_with_known(returns_half_the_norm, magnitude, sizes, KNOWN)

    assert {cell.status for cell in cells} <= {"fail"}


@pytest.mark.parametrize(
    "sizes", [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.thorough(sample=0))]
)
def test_answer_with_two_causes_is_excused_only_if_both_are_known(sizes: Sequence[str]) -> None:
    dropped = make_known("count-changed", "none dropped")
    missing = ("none-first", "none-middle", "none-last")

    def find_statuses(*known: KnownFailure) -> set[str]:
        return {cell.status for cell in judge_with_known(overflow_and_drop, "squares-over", sizes, known, none=missing)}

    assert find_statuses(*KNOWN, dropped) == {"known"}
    assert find_statuses(dropped) <= {"fail"}
    assert find_statuses(*KNOWN) <= {"fail"}


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("sizes", [SHORT, LONG], ids=["short", "long"])
def test_flushed_subnormals_are_recognised_among_other_gradients(sizes: Sequence[str]) -> None:
    flushed = make_known("subnormals-flushed")

    def find_statuses(*known: KnownFailure) -> set[str]:
        return {cell.status for cell in judge_with_known(flush, "ordinary", sizes, known, data=("subnormals",))}

    assert "fail" in find_statuses()
    assert find_statuses(flushed) <= {"pass", "known"}


def multiply_first(grads: Any, *, clip_norm: float) -> Any:
    """Multiply by the threshold in the dtype of the gradient, before the division."""
    with np.errstate(all="ignore"):
        norms = [np.sqrt(np.sum(np.square(g, dtype=g.dtype), dtype=np.float64)).astype(g.dtype) for g in grads]
        limits = [g.dtype.type(clip_norm) for g in grads]
        return [g * c / np.maximum(n, c) for g, n, c in zip(grads, norms, limits, strict=True)]


def ask_row(name: str, *known: KnownFailure) -> Cell:
    """Return the cell of a row of a clip by norm, for a function that multiplies first."""
    connection = InProcess(make_adapter(multiply_first, "clip_by_norm", "float16+float32"))
    (entry_point,) = connection.description.subjects
    row = find_row(name)
    assert row is not None
    return run_cell(connection, PlannedCell(entry_point, row, None), 5.0, Knowledge(known=known))


ROUNDED = make_known("not-exact-below")
PRODUCTS = make_known("product-out-of-range")
OVERFLOWS = make_known("squares-overflow", "zeros", "nan", "nan and zeros")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        # A long tensor and short tensors are rounded, although no sum matters.
        ("norm.combinations/s262145_n10_odd_far-below_long-first_negative/float16+float32", [ROUNDED, PRODUCTS]),
        # The square of one large element overflows in float16.
        ("norm.combinations/s1_n10_five_one-large_integer/float16+float32", [OVERFLOWS, ROUNDED]),
        # Beside an infinite element, finite elements become NaN.
        (
            "norm.combinations-extreme/s65537_n65_square_below_shapes_infinity-middle_integer/float16",
            [OVERFLOWS, PRODUCTS, make_known("squares-overflow", "zeros and nan")],
        ),
        # Squares underflow, and products are subnormal in gradients above and below the threshold.
        (
            "norm.combinations-extreme/s4_n10_odd_shapes_alternating_squares-under/float16",
            [make_known("squares-underflow", "scaled"), PRODUCTS],
        ),
        # The norm that divides the subnormal products has lost digits.
        (
            "norm.combinations-extreme/s513_n3_one-row_far-above_long-first_squares-under/float16",
            [make_known("squares-underflow", "scaled")],
        ),
    ],
)
def test_several_known_causes_explain_a_row_together(name: str, known: Sequence[KnownFailure]) -> None:
    assert ask_row(name, *known).status == "known"
    assert ask_row(name).status == "fail"
