"""Write a record, and refuse what could not be read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from .lines import Cell, Footer, Line, RecordError, Run, hash_plan
from .statuses import CELL_STATUSES
from .values import write_json

__all__ = ["check_cell", "make_footer", "write_line", "write_run"]


def make_footer(cells: Sequence[Cell]) -> Footer:
    """Return the footer of a whole run with these cells."""
    return Footer(
        planned=len(cells),
        finished=len(cells),
        counts=dict(sorted(Counter(cell.status for cell in cells).items())),
        plan_sha256=hash_plan(cell.pair for cell in cells),
    )


def write_line(line: Line) -> str:
    """Return one line of a record."""
    return write_json(line.to_json()) + "\n"


def write_run(stream: TextIO, run: Run) -> None:
    """Write a run to a text stream, in UTF-8.

    Raises
    ------
    RecordError
        If a cell occurs twice, or could not be read back.
    """
    _refuse_repetitions(cell.pair for cell in run.cells)
    for cell in run.cells:
        check_cell(cell)
    for line in (run.header, *run.cells, *run.findings, run.footer):
        stream.write(write_line(line))


def _refuse_repetitions(pairs: Iterable[tuple[str, str]]) -> None:
    for pair, times in Counter(pairs).items():
        if times > 1:
            message = f"The run has the cell {' '.join(pair)!r} {times} times. This is a fault of the suite."
            raise RecordError(message)


def check_cell(cell: Cell) -> None:
    """Refuse at once a cell that the schema would refuse when the record is read, long after the run.

    Raises
    ------
    RecordError
        If it could not be read back.
    """
    for problem in _find_problems(cell):
        message = f"The cell {' '.join(cell.pair)!r} cannot be written: {problem}. This is a fault of the suite."
        raise RecordError(message)


def _find_problems(cell: Cell) -> Iterator[str]:
    if cell.status not in CELL_STATUSES:
        yield f"there is no status {cell.status!r}"
    if cell.status != "pass" and not cell.detail:
        yield f"its status is {cell.status!r} and its detail is empty"
    if cell.ulp is not None and not cell.ulp >= 0:
        yield f"its ulp is {cell.ulp}"
