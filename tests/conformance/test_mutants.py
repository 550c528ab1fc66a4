"""Check that each mutant is caught by its rule, and that each rule catches a mutant."""

from __future__ import annotations

from collections import Counter

import pytest
from mutants import WRONG, Wrong

from gradclip_adapters import arrays
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection, plan_cells
from gradclip_conformance.run.runner import plan_rows, run_cell
from gradclip_reports.records import Cell
from gradclip_spec import rules


def run_cells(wrong: Wrong) -> list[Cell]:
    """Return the cells of the rule that must catch the function."""
    adapter = wrong.adapter(wrong.function, wrong.operation, dtypes=wrong.dtypes, in_place=wrong.in_place)
    connection = InProcess(adapter)
    selection = Selection(rules=(wrong.rule,))
    subjects = connection.description.subjects
    planned = plan_cells(subjects, list_all_cases(), selection)
    cells = [
        run_cell(connection, cell, 1.0) for cell in planned if set(cell.case.dtype.split("+")) <= set(wrong.dtypes)
    ]
    # One rule has a thousand rows: the first row that catches the function is enough.
    for cell in plan_rows(subjects, selection):
        cells.append(run_cell(connection, cell, 1.0))
        if cells[-1].status == wrong.caught_as:
            break
    return cells


@pytest.mark.thorough(sample=40)
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_mutant_is_caught_by_its_rule(wrong: Wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    # A call interrupts another call and must end within PATIENCE. No mutant holds a lock, so it always ends; a
    # longer PATIENCE lets it end in time even on a busy machine.
    monkeypatch.setattr(arrays, "PATIENCE", 60.0)
    cells = run_cells(wrong)

    statuses = Counter(cell.status for cell in cells)
    assert statuses[wrong.caught_as] > 0, f"{wrong.name}. Its rule gave {dict(statuses)}."
    assert statuses["error"] == 0, [cell.detail for cell in cells if cell.status == "error"]


def test_every_rule_catches_a_mutant() -> None:
    caught = {wrong.rule for wrong in WRONG}
    # The suite records unspecified behaviour and never judges it.
    judged = {rule.id for rule in rules.load() if rule.level != "unspecified"}

    assert caught == judged, f"rules that catch nothing: {sorted(judged - caught)}; unknown: {sorted(caught - judged)}"


def test_each_mutant_has_its_own_name() -> None:
    names = [wrong.name for wrong in WRONG]

    assert len(names) == len(set(names))
