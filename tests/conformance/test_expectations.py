"""Check that each case names a known expectation, a wrong name is refused, and a new expectation is one class."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from mutants import WRONG, Wrong, of_norms
from mutants.steps import ByNorm

import gradclip_conformance
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.build import make_case, make_tensor
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.literals import NoScript
from gradclip_conformance.cases.model import Case, Expect, expect
from gradclip_conformance.cases.themes import zero
from gradclip_conformance.judge import expectation as registry
from gradclip_conformance.judge import expectations
from gradclip_conformance.judge.expectation import Expectation
from gradclip_conformance.judge.expectations.effects import ProcessesAgree
from gradclip_conformance.judge.judging import EXPECTATIONS, choose_expectation
from gradclip_conformance.judge.model import Script, ScriptCall
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection, plan_cells
from gradclip_conformance.run.runner import run_cell
from gradclip_conformance.sampler.rows import list_all_rows
from gradclip_reports.records import Cell

SUITE = Path(str(gradclip_conformance.__file__)).parent


def test_expectation_of_every_case_resolves() -> None:
    used = {type(choose_expectation(each)) for each in (*list_all_cases(), *list_all_rows())}

    # No case has this expectation: it is judged beside others, if several processes make the call.
    assert used == set(EXPECTATIONS) - {ProcessesAgree}


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
    asked = make_case("norm.scaled-above", "x", "float32", [make_tensor([3.0], "float32")], {"clip_norm": 1.0}, wrong)

    with pytest.raises(ValueError, match=said):
        choose_expectation(asked)


MANUAL = Path(__file__).parents[2] / "docs" / "how-to" / "new-expectation.md"


@dataclass(frozen=True)
class Example:
    """The definitions in the programs of docs/how-to/new-expectation.md."""

    kind: type[Expectation]
    case: Case
    wrong: Wrong


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Example]:
    """Follow docs/how-to/new-expectation.md word for word: a new file, a case, and a mutant."""
    text = MANUAL.read_text(encoding="utf-8")
    file, case_, function = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    (named,) = re.findall(r"judge/expectations/(\w+\.py)`", text)
    (tmp_path / named).write_text(file, encoding="utf-8")
    monkeypatch.setattr(expectations, "__path__", [*expectations.__path__, str(tmp_path)])
    monkeypatch.setattr(registry, "_KINDS", dict(registry._KINDS))
    table_length = len(WRONG)
    try:
        (kind,) = set(expectations.load_expectations()) - set(EXPECTATIONS)
        # A theme of cases is a generator, and the example is one of its statements.
        theme = dict(vars(zero))
        exec(f"def make_cases():\n{indent(case_, '    ')}", theme)
        exec(function, dict(vars(of_norms)))
        yield Example(kind, *theme["make_cases"](), WRONG[-1])
    finally:
        del WRONG[table_length:]
        del sys.modules[f"{expectations.__name__}.{Path(named).stem}"]


def run_case(example: Example, function: Callable[..., Any]) -> Cell:
    """Run the case of the example with a clip function."""
    connection = InProcess(PlainFunction(function, "clip_by_norm"))
    (planned,) = plan_cells(connection.description.subjects, [example.case], Selection())
    return run_cell(connection, planned, 1.0)


def test_new_expectation_is_one_file_and_catches_the_mutant(example: Example) -> None:
    right, wrong = run_case(example, ByNorm()), run_case(example, example.wrong.function)

    assert choose_expectation(example.case) == example.kind(tolerance=0.5)
    assert (right.status, right.detail) == ("pass", "")
    assert (wrong.status, wrong.detail) == (example.wrong.caught_as, "The sum was 0 and is 1.41421.")


def test_new_expectation_is_described_and_has_no_script(example: Example) -> None:
    connection = InProcess(PlainFunction(ByNorm(), "clip_by_norm"))
    (planned,) = plan_cells(connection.description.subjects, [example.case], Selection())
    script = Script(example.case, planned.entry_point, ScriptCall("", "", "", ""), raised=False)

    assert choose_expectation(example.case).describe(example.case) == ("the sum of all elements is kept",)
    with pytest.raises(NoScript, match="sum-kept"):
        choose_expectation(example.case).write_script(script)
