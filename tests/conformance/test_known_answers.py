"""Check which answers a known failure excuses: those of its cause, in written cases and in rows, and no others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.known.failures import KnownFailure, load_known_of
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import PlannedCell, Selection, plan_cells
from gradclip_conformance.run.runner import run_cell
from gradclip_conformance.sampler.rows import find_row, list_cases
from gradclip_reports.records import Cell

Clip = Callable[..., list[Any]]


def make_clip(factor: Callable[[Any, Any], Any], change: Callable[[Any], Any] = lambda result: result) -> Clip:
    """Return a clip by global norm that multiplies by a factor and then changes its results.

    The norm is squared and summed in the gradients' dtype.
    """

    def clip(grads: list[Any], *, clip_norm: float) -> list[Any]:
        with np.errstate(all="ignore"):
            norm = np.sqrt(sum(np.sum(grad * grad, dtype=grad.dtype) for grad in grads))
            return [change((grad * factor(norm, clip_norm)).astype(grad.dtype)) for grad in grads]

    return clip


def add_epsilon(epsilon: float, change: Callable[[Any], Any] = lambda result: result) -> Clip:
    """Return a clip that multiplies by min(1, clip_norm / (norm + epsilon)) and then changes its results."""
    return make_clip(lambda norm, clip_norm: min(clip_norm / (float(norm) + epsilon), 1.0), change)


def refuse(grads: list[Any], *, clip_norm: float) -> list[Any]:
    msg = "no kernel"
    raise NotImplementedError(msg)


#: Answers. The first two imitate those of the frameworks.
ANSWERS: dict[str, Clip] = {
    "epsilon": add_epsilon(1e-6),
    "one axis": add_epsilon(1e-6, lambda result: result.reshape(-1)),
    "two axes": add_epsilon(1e-6, lambda result: result.reshape(1, -1)),
    "larger epsilon": add_epsilon(1e-5),
    "smaller epsilon": add_epsilon(1e-8),
    "doubled": add_epsilon(1e-6, lambda result: result * 2),
    "negated": add_epsilon(1e-6, lambda result: -result),
    "absolute": add_epsilon(1e-6, np.abs),
    "erased": add_epsilon(1e-6, lambda result: np.minimum(result, 0)),
    "zeros": add_epsilon(1e-6, lambda result: result * 0),
    "plus one": add_epsilon(1e-6, lambda result: result + 1),
    "divided by zero": add_epsilon(1e-6, lambda result: result / 0),
    "wider": add_epsilon(1e-6, lambda result: result.astype(np.float64)),
    "unclipped": make_clip(lambda norm, clip_norm: 1.0),
    "NaN": make_clip(lambda norm, clip_norm: np.nan),
    "times threshold": make_clip(lambda norm, clip_norm: clip_norm),
    "a little larger": make_clip(lambda norm, clip_norm: 1.02 * clip_norm / norm),
    "fewer": lambda grads, *, clip_norm: grads[:-1],
    "None": lambda grads, *, clip_norm: [*grads[:-1], None],
    "refused": refuse,
}

TORCH = ("torch", "2.13.0", "torch.nn.utils.clip_grad_norm_[foreach=None]")
OTHER_EPSILONS = {"larger epsilon", "smaller epsilon"}
#: For each case: the adapter, the version and the entry point with a known failure, the answer that imitates it, and
#: the answers that are right there, or equal to the known one.
ENTRIES = {
    "global-norm.scaled-above/three-four-five/float64": (
        ("paddle", "3.3.1", "paddle.nn.utils.clip_grad_norm_"),
        "epsilon",
        {"one axis", "absolute", "wider"},
    ),
    "global-norm.negative-threshold-refused/minus-one/float32": (
        TORCH,
        "epsilon",
        {"one axis", "smaller epsilon", "refused"},
    ),
    "global-norm.negative-threshold-refused/minus-infinity/float32": (
        TORCH,
        "epsilon",
        {"one axis", *OTHER_EPSILONS, "doubled", "plus one", "divided by zero", "times threshold"}
        | {"a little larger", "refused"},
    ),
    "global-norm.overflow-of-squares/two-tensors/float32": (
        TORCH,
        "epsilon",
        {"one axis", *OTHER_EPSILONS, "doubled", "negated", "absolute", "erased", "zeros", "a little larger"},
    ),
    "global-norm.zero-dimensional/shape/float32": (
        ("paddle", "3.3.1", "paddle.nn.ClipGradByGlobalNorm [called]"),
        "one axis",
        {"epsilon", "smaller epsilon"},
    ),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("case", ENTRIES)
def test_only_the_known_answer_is_excused(case: str, answer: str) -> None:
    (adapter, version, subject), imitation, others = ENTRIES[case]
    with np.errstate(all="ignore"):
        connection = InProcess(PlainFunction(ANSWERS[answer], "clip_by_global_norm", name=subject))
        planned = plan_cells(connection.description.subjects, list_all_cases(), Selection(cases=(case,)))
        (cell,) = (run_cell(connection, one, 1.0, known=load_known_of(adapter, version, {})) for one in planned)

    expected = {"known"} if answer == imitation else {"known", "pass"} if answer in others else {"fail"}
    assert cell.status in expected


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


def return_half_the_norm(grads: Any, *, clip_norm: float) -> Any:
    norm = sum_squares(grads, np.float64)
    return clip_with_norm(grads, clip_norm, norm), norm / 2


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


def judge_rows(
    function: Callable[..., Any],
    magnitude: str,
    sizes: Sequence[str],
    known: Sequence[KnownFailure],
    **levels: Sequence[str],
) -> list[Cell]:
    """Return the cells of a few rows in float32. `levels` limits other axes to the given levels."""
    connection = InProcess(PlainFunction(function, "clip_by_global_norm", dtypes=("float32",)))
    (subject,) = connection.description.subjects
    cases = (
        case
        for _, case in list_cases(subject, 6000)
        if (row := case.levels)["magnitude"] == magnitude
        and row["size"] in sizes
        and (row["relation"] != "zero" or "relation" in levels)
        and all(row[axis] in words for axis, words in levels.items())
    )
    planned = [PlannedCell(subject, case, None) for case in itertools.islice(cases, 4)]
    cells = [run_cell(connection, one, 1.0, known=known) for one in planned]
    assert len(cells) >= 2
    return cells


SHORT, LONG = ("s2", "s4", "s9", "s33", "s513"), ("s4097", "s16385", "s65537")


@pytest.mark.parametrize("sizes", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.parametrize("magnitude", ["squares-over", "squares-under"])
def test_norm_that_left_the_range_is_recognised(magnitude: str, sizes: Sequence[str]) -> None:
    cells = judge_rows(return_wrong_norm, magnitude, sizes, KNOWN)

    assert {cell.status for cell in cells} == {"known"}
    assert {cell.breaks for cell in cells} == {"global-norm.returned-norm"}


def test_norm_that_underflows_is_recognised_if_threshold_is_zero() -> None:
    cells = judge_rows(return_wrong_norm, "squares-under", SHORT, KNOWN, relation=("zero",))

    assert {cell.status for cell in cells} == {"known"}


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("sizes", [SHORT, LONG], ids=["short", "long"])
def test_gradients_after_an_overflow_are_recognised(sizes: Sequence[str]) -> None:
    assert "known" in {cell.status for cell in judge_rows(overflow, "squares-over", sizes, KNOWN)}
    assert {cell.status for cell in judge_rows(overflow, "squares-over", sizes, ())} == {"fail"}


@pytest.mark.parametrize("sizes", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.parametrize("magnitude", ["squares-over", "squares-under"])
def test_another_wrong_norm_is_not_excused(magnitude: str, sizes: Sequence[str]) -> None:
    cells = judge_rows(return_half_the_norm, magnitude, sizes, KNOWN)

    assert {cell.status for cell in cells} <= {"fail"}


@pytest.mark.parametrize(
    "sizes", [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.thorough(sample=0))]
)
def test_answer_with_two_causes_is_excused_only_if_both_are_known(sizes: Sequence[str]) -> None:
    dropped = make_known("count-changed", "none dropped")
    missing = ("none-first", "none-middle", "none-last")

    def find_statuses(*known: KnownFailure) -> set[str]:
        return {cell.status for cell in judge_rows(overflow_and_drop, "squares-over", sizes, known, none=missing)}

    assert find_statuses(*KNOWN, dropped) == {"known"}
    assert find_statuses(dropped) <= {"fail"}
    assert find_statuses(*KNOWN) <= {"fail"}


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("sizes", [SHORT, LONG], ids=["short", "long"])
def test_flushed_subnormals_are_recognised_among_other_gradients(sizes: Sequence[str]) -> None:
    flushed = make_known("subnormals-flushed")

    def find_statuses(*known: KnownFailure) -> set[str]:
        return {cell.status for cell in judge_rows(flush, "ordinary", sizes, known, data=("subnormals",))}

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
    connection = InProcess(PlainFunction(multiply_first, "clip_by_norm", dtypes=("float16", "float32")))
    (subject,) = connection.description.subjects
    row = find_row(name)
    assert row is not None
    return run_cell(connection, PlannedCell(subject, row, None), 5.0, known=known)


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
