"""Write a record that stays valid even if the run is interrupted."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self, TextIO

from .lines import Cell, Finding, Footer, Header, Line, RecordError, hash_plan
from .statuses import CELL_STATUSES
from .values import write_json

__all__ = ["RunWriter"]


@contextlib.contextmanager
def _hold_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the block has ended, so that a line that is written is always counted, too."""
    previous = signal.getsignal(signal.SIGINT)
    # Only the main thread may set handlers, and only the main thread is interrupted.
    if previous is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if held:
            signal.raise_signal(signal.SIGINT)


class RunWriter:
    """A writer of one run to a text stream, with the cells in the order of the plan.

    A cell is written as soon as all earlier cells of the plan are written, so the number of jobs does not change the
    lines.

    As a context manager, it closes the run at the end of the block. If an exception, such as Ctrl-C, ends the block,
    the footer says that the run is incomplete and names the cells that did not run.

    Parameters
    ----------
    stream
        The stream for the lines, in UTF-8; it stays open.
    header
        The header, which is written at once.
    plan
        (subject, case) for each cell that must run.

    Raises
    ------
    RecordError
        If the plan names a cell twice.
    """

    def __init__(self, stream: TextIO, header: Header, plan: Iterable[tuple[str, str]]) -> None:
        pairs = list(plan)
        self._stream = stream
        self._plan = dict.fromkeys(pairs)
        self._finished: set[tuple[str, str]] = set()
        self._order = list(self._plan)
        #: The count of written cells, and the cells that wait until earlier ones are written.
        self._written = 0
        self._waiting: dict[tuple[str, str], Cell] = {}
        self._counts: Counter[str] = Counter()
        self._closed = False
        if len(self._plan) != len(pairs):
            twice = next(pair for pair, times in Counter(pairs).items() if times > 1)
            message = f"The plan names the cell {' '.join(twice)!r} twice; it must name each cell once."
            raise RecordError(message)
        self._write_line(header)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if not self._closed:
            self.close(incomplete=kind is not None)

    def _write_line(self, line: Line) -> None:
        self._stream.write(write_json(line.to_json()) + "\n")
        self._stream.flush()

    def write(self, cell: Cell) -> None:
        """Write one cell, or keep it until all cells before it in the plan are written.

        Raises
        ------
        RecordError
            If the cell is not in the plan, has been written already, or could not be read back; or if the run is
            closed.
        """
        pair = cell.pair
        for problem in self._find_problems(cell, pair):
            message = f"The cell {' '.join(pair)!r} cannot be written: {problem}. This is a fault of the suite."
            raise RecordError(message)
        with _hold_interrupts():
            self._waiting[pair] = cell
            while self._written < len(self._order) and self._order[self._written] in self._waiting:
                self._write_line(self._waiting.pop(self._order[self._written]))
                self._written += 1
            self._finished.add(pair)
            self._counts[cell.status] += 1

    def sort(self, cells: Iterable[Cell]) -> tuple[Cell, ...]:
        """Return cells of this run in the order of the plan."""
        places = {pair: place for place, pair in enumerate(self._order)}
        return tuple(sorted(cells, key=lambda cell: places[cell.pair]))

    def _find_problems(self, cell: Cell, pair: tuple[str, str]) -> Iterator[str]:
        if self._closed:
            yield "the run is closed"
        if pair not in self._plan:
            yield "not planned"
        if pair in self._finished:
            yield "written before"
        # Refuse here what the schema would otherwise refuse when the record is read, long after the run.
        if cell.status not in CELL_STATUSES:
            yield f"there is no status {cell.status!r}"
        if cell.status != "pass" and not cell.detail:
            yield f"its status is {cell.status!r} and its detail is empty"
        if cell.ulp is not None and not cell.ulp >= 0:
            yield f"its ulp is {cell.ulp}"

    def close(self, findings: Iterable[Finding] = (), *, incomplete: bool = False) -> Footer:
        """Write the cells that wait, the findings, and the footer.

        Parameters
        ----------
        findings
            The findings of the run, worst first.
        incomplete
            Whether the run was interrupted, so that cells may be missing.

        Raises
        ------
        RecordError
            If cells are missing and `incomplete` is false (then no footer is written), or if the run is closed.
        """
        not_run = [pair for pair in self._plan if pair not in self._finished]
        if self._closed or (not_run and not incomplete):
            why = "it is closed already" if self._closed else f"{len(not_run)} planned cells were not written"
            message = f"The run cannot be closed: {why}. Close an interrupted run with `incomplete=True`."
            raise RecordError(message)
        footer = Footer(
            planned=len(self._plan),
            finished=len(self._finished),
            counts=dict(sorted(self._counts.items())),
            plan_sha256=hash_plan(self._plan),
            incomplete=bool(not_run),
            not_run=not_run,
        )
        with _hold_interrupts():
            for cell in self.sort(self._waiting.values()):
                self._write_line(cell)
            self._waiting.clear()
            for finding in findings:
                self._write_line(finding)
            self._write_line(footer)
            self._closed = True
        return footer
