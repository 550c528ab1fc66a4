"""Check that each case names a known expectation, that a wrong name is refused, and that a new one needs one class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from gradclip_adapters.contract import Reply
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.build import case, tensor
from gradclip_conformance.cases.catalogue import all_cases
from gradclip_conformance.cases.literals import NoScript
from gradclip_conformance.cases.model import Case, Expect, expect
from gradclip_conformance.judge import expectation as registry
from gradclip_conformance.judge.expectation import Expectation, Part
from gradclip_conformance.judge.judging import EXPECTATIONS, expectation_of
from gradclip_conformance.judge.model import Context, Script, ScriptCall, Verdict
from gradclip_conformance.oracle.formats import float64_values
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection, plan_cells
from gradclip_conformance.run.runner import run_cell
from gradclip_reports.statuses import Status


def test_expectation_of_every_case_resolves() -> None:
    used = {type(expectation_of(each)) for each in all_cases()}

    assert used == set(EXPECTATIONS)


def test_every_expectation_is_described() -> None:
    first: dict[Expect, Case] = {}
    for each in all_cases():
        first.setdefault(each.expectation, each)
    for each in first.values():
        parts = expectation_of(each).describe(each)
        assert parts, each.id
        assert not any("is not described" in part for part in parts if isinstance(part, str)), each.id


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (expect("value"), "Did you mean values"),
        (expect("something else"), "Known: "),
        (expect("values", wild=True), "Did you mean wide"),
        (expect("refused", atomic=True), "no parameter 'atomic'"),
        (expect("untouched"), "lacks a parameter"),
        (expect("metamorphic", relation="twize"), "Did you mean twice"),
    ],
)
def test_wrong_name_or_parameter_is_refused(wrong: Expect, said: str) -> None:
    asked = case("norm.scaled-above", "x", "float32", [tensor([3.0], "float32")], {"clip_norm": 1.0}, wrong)

    with pytest.raises(ValueError, match=said):
        expectation_of(asked)


@pytest.fixture
def sum_kept() -> Iterator[type[Expectation]]:
    """Define a new expectation, as docs/new-expectation.md shows, and remove it afterwards."""

    @dataclass(frozen=True)
    class SumKept(Expectation):
        """The sum of all elements does not change."""

        name: ClassVar[str] = "sum-kept"
        tolerance: float = 0.0

        def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
            """Compare the sums."""
            given = sum(float64_values(g.array).sum() for g in context.case.gradients if g.array)
            got = sum(float64_values(array).sum() for array in replies[0].gradients if array)
            if abs(got - given) <= self.tolerance:
                return Verdict(Status.PASS)
            return Verdict(Status.FAIL, f"The sum was {given:g} and is {got:g}.")

        def describe(self, case: Case) -> Sequence[Part]:
            """Return what is expected."""
            return ("the sum of all elements is kept",)

    yield SumKept
    del registry._KINDS["sum-kept"]


def clip(grads: list[Any], *, clip_norm: float) -> list[Any]:
    """Scale each gradient to a norm of at most `clip_norm`."""
    return [grad * np.float32(min(1.0, clip_norm / max(float(np.linalg.norm(grad)), 1e-30))) for grad in grads]


@pytest.mark.parametrize(("values", "status"), [([3.0, 4.0], "fail"), ([4.0, -4.0], "pass")])
def test_new_expectation_is_one_class(sum_kept: type[Expectation], values: list[float], status: str) -> None:
    expected = expect(sum_kept.name, tolerance=0.5)
    asked = case("norm.scaled-above", "sum", "float32", [tensor(values, "float32")], {"clip_norm": 1.0}, expected)
    connection = InProcess(PlainFunction(clip, "clip_by_norm"))
    (planned,) = plan_cells(connection.description.subjects, [asked], Selection())

    cell = run_cell(connection, planned, 1.0)

    assert (cell.status, cell.detail) == (status, "The sum was 7 and is 1.4." if status == "fail" else "")
    assert expectation_of(asked).describe(asked) == ("the sum of all elements is kept",)
    with pytest.raises(NoScript, match="sum-kept"):
        expectation_of(asked).write_script(
            Script(asked, planned.subject, ScriptCall("", "", "", "", "", ""), raised=False)
        )
