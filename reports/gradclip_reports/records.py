"""Read and write records. A record is a JSON Lines file, one line for each cell.

A run is a header, its cells, its findings, and a footer; a file holds one run after another. The footer says what was
planned, so missing lines are detected: :func:`read_runs` refuses a file that is cut short, edited or incomplete.

Writing needs only the standard library. Reading checks each line against its JSON Schema (package fastjsonschema, in
the extra `check`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TextIO

from .lines import SCHEMA, Cell, Finding, Footer, Header, Line, RecordError, Run, hash_plan, make_footer
from .reading import read_partial, read_runs
from .statuses import CELL_STATUSES
from .values import write_json

__all__ = [
    "SCHEMA",
    "Cell",
    "Finding",
    "Footer",
    "Header",
    "RecordError",
    "Run",
    "check_cell",
    "hash_plan",
    "make_footer",
    "read_partial",
    "read_runs",
    "write_line",
    "write_run",
]


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
    for pair, times in Counter(cell.pair for cell in run.cells).items():
        if times > 1:
            message = f"The run has the cell {' '.join(pair)!r} {times} times. This is a fault of the suite."
            raise RecordError(message)
    for cell in run.cells:
        check_cell(cell)
    for line in (run.header, *run.cells, *run.findings, run.footer):
        stream.write(write_line(line))


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
