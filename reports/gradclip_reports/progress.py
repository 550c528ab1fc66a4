"""Show the progress of a run: a bar on a terminal, or otherwise a line at each quarter."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .lines import Cell
from .statuses import SPOILING
from .values import escape_text

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

__all__ = ["Progress", "progress_bar"]


class Progress:
    """The receiver of progress reports about a run; this base class ignores them."""

    def note_start(self, adapter: str, heading: str, planned: int) -> None:
        """Note that an adapter has started, with the name of its framework and the number of planned cells."""

    def note_finish(self, cell: Cell) -> None:
        """Note that a cell is finished."""


class _OnTerminal(Progress):
    def __init__(self, bar: Bar) -> None:
        self._bar, self._spoiled = bar, 0

    def note_start(self, adapter: str, heading: str, planned: int) -> None:
        self._task = self._bar.add_task(f"{adapter} ({heading})", total=planned, failures="")

    def note_finish(self, cell: Cell) -> None:
        self._spoiled += cell.status in SPOILING
        failures = f"{self._spoiled} not as expected" if self._spoiled else ""
        self._bar.update(self._task, advance=1, failures=failures)


class _InLines(Progress):
    def note_start(self, adapter: str, heading: str, planned: int) -> None:
        self._adapter, self._planned, self._done, self._spoiled = adapter, planned, 0, 0
        _say(f"{adapter}: {heading}, {planned} cells")

    def note_finish(self, cell: Cell) -> None:
        self._done += 1
        self._spoiled += cell.status in SPOILING
        if self._done * 4 // self._planned > (self._done - 1) * 4 // self._planned:
            _say(f"{self._adapter}: {self._done} of {self._planned}, {self._spoiled} not as expected")


def _say(text: str) -> None:
    """Print a line on standard error; escape control characters."""
    sys.stderr.write(f"{escape_text(text)}\n")
    sys.stderr.flush()


@contextlib.contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show a bar on a terminal, or print lines elsewhere, while a run goes on."""
    # Import rich only here, because the suite as a library does not need it.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

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
