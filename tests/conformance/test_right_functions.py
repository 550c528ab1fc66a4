"""Check that right functions are not blamed, however they are written."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from mutants.right import RIGHT, Right

from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import PlannedCell, Selection, plan_cells
from gradclip_conformance.run.runner import CASE_SECONDS, Knowledge, plan_rows, run_cell
from gradclip_reports.records import Cell
from gradclip_reports.statuses import SPOILING

DTYPES = ("float16", "float32", "float64")

#: Without `--all`, each function is asked all written cases and one of this many parts of the rows. The mutants of an
#: operation take turns, so that together they are asked every row several times.
PARTS = 4


def _list_turns() -> Iterator[tuple[Right, int]]:
    """Yield each function, with its number among the mutants of its operation."""
    numbers = {right.operation: count() for right in RIGHT}
    yield from ((right, next(numbers[right.operation])) for right in RIGHT)


def _run_cells(right: Right, part: int, parts: int) -> list[Cell]:
    """Return the cells of all written cases, and of one part of the rows."""
    adapter = PlainFunction(right.function, right.operation, DTYPES, right.in_place)
    connection, knowledge = InProcess(adapter), Knowledge()
    entry_points = connection.description.subjects

    def list_known(planned: list[PlannedCell]) -> list[PlannedCell]:
        return [cell for cell in planned if set(cell.case.dtype.split("+")) <= set(DTYPES)]

    written = list_known(plan_cells(entry_points, list_all_cases(), Selection()))
    rows = list_known(plan_rows(entry_points, Selection(), right.rows))
    assert rows
    asked = [*written, *rows[part % parts :: parts]]
    return [run_cell(connection, cell, CASE_SECONDS, knowledge) for cell in asked]


def _may_be_rough(right: Right, rule: str) -> bool:
    """Tell whether poor quality is excused: float64 cannot hold the norm, or many elements make it inaccurate."""
    about_many = (".large-tensor-accuracy", ".combinations", ".combinations-extreme")
    return rule.endswith(".norm-beyond-range") or (right.grows and rule.endswith(about_many))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("right", "turn"), [pytest.param(*each, id=f"{each[0].operation}-{each[0].name}") for each in _list_turns()]
)
def test_right_function_is_not_blamed(right: Right, turn: int, pytestconfig: pytest.Config) -> None:
    cells = _run_cells(right, turn, 1 if pytestconfig.getoption("--all") else PARTS)

    blamed = [
        f"{cell.case} {cell.status}: {cell.detail}"
        for cell in cells
        if cell.status in SPOILING or (cell.status == "quality" and not _may_be_rough(right, cell.rule))
    ]
    assert not blamed, "\n".join(blamed)
    assert sum(cell.status == "pass" for cell in cells) > len(cells) / 2
