"""Show the progress of a run: a bar on a terminal, a line at each quarter elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from gradclip_reports.records import Cell
from gradclip_reports.statuses import SPOILING

from ..judge.model import Description
from ..run.runner import Progress
from .targets import say

__all__ = ["progress_bar"]


class _OnTerminal(Progress):
    def __init__(self, bar: Bar) -> None:
        self._bar, self._spoiled = bar, 0

    def started(self, adapter: str, description: Description, planned: int) -> None:
        self._task = self._bar.add_task(f"{adapter} ({description.heading})", total=planned, failures="")

    def finished(self, cell: Cell) -> None:
        self._spoiled += cell.status in SPOILING
        failures = f"{self._spoiled} not as expected" if self._spoiled else ""
        self._bar.update(self._task, advance=1, failures=failures)


class _InLines(Progress):
    def started(self, adapter: str, description: Description, planned: int) -> None:
        self._adapter, self._planned, self._done, self._spoiled = adapter, planned, 0, 0
        say(f"{adapter}: {description.heading}, {planned} cells")

    def finished(self, cell: Cell) -> None:
        self._done += 1
        self._spoiled += cell.status in SPOILING
        if self._done * 4 // self._planned > (self._done - 1) * 4 // self._planned:
            say(f"{self._adapter}: {self._done} of {self._planned}, {self._spoiled} not as expected")


@contextlib.contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show a bar on a terminal, or print lines elsewhere, while a run goes on."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _InLines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[red]{task.fields[failures]}"),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        # A field must exist before the first cell is known.
        yield _OnTerminal(bar)
