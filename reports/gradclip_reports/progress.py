"""Show the progress of a run and of other long tasks: a bar on a terminal, or otherwise a few lines."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .lines import Cell
from .statuses import SPOILING
from .values import escape_line, escape_text

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import ProgressColumn, TaskID


class Progress:
    """The receiver of progress reports about a run. This base class ignores them."""

    def note_start(self, adapter: str, heading: str, planned: int) -> None:
        """Note that an adapter has started, with the name of its framework and the number of planned cells."""

    def note_finish(self, cell: Cell) -> None:
        """Note that a cell is finished."""


class _OnTerminal(Progress):
    def __init__(self, bar: Bar) -> None:
        self._bar, self._spoiled = bar, 0

    def note_start(self, adapter: str, heading: str, planned: int) -> None:
        name = adapter if heading == adapter else f"{adapter} ({heading})"
        # Set `failures` now, because the bar shows it before the first cell is finished.
        self._task = self._bar.add_task(_escape(name), total=planned, failures="")

    def note_finish(self, cell: Cell) -> None:
        self._spoiled += cell.status in SPOILING
        failures = f"{self._spoiled} not as expected" if self._spoiled else ""
        self._bar.update(self._task, advance=1, failures=failures)


class _InLines(Progress):
    def note_start(self, adapter: str, heading: str, planned: int) -> None:
        self._adapter, self._planned, self._done, self._spoiled = adapter, planned, 0, 0
        say_line(f"{adapter}: {f'{planned} cells' if heading == adapter else f'{heading}, {planned} cells'}")

    def note_finish(self, cell: Cell) -> None:
        self._done += 1
        self._spoiled += cell.status in SPOILING
        if self._done * 4 // self._planned > (self._done - 1) * 4 // self._planned:
            say_line(f"{self._adapter}: {self._done} of {self._planned}, {self._spoiled} not as expected")


def say_line(text: str) -> None:
    """Print a line on standard error. Escape control characters."""
    sys.stderr.write(f"{escape_text(text)}\n")
    sys.stderr.flush()


class Task:
    """The receiver of reports about a long task. This base class ignores them."""

    def note(self, text: str) -> None:
        """Note what the task does now."""

    def tell(self, text: str) -> None:
        """Note what the task does now, so that a log shows it, too."""

    def advance(self) -> None:
        """Note that a step is finished."""


class _TaskInLines(Task):
    def tell(self, text: str) -> None:
        say_line(text)


class _TaskOnTerminal(Task):
    def __init__(self, bar: Bar, task: TaskID) -> None:
        self._bar, self._task = bar, task

    def tell(self, text: str) -> None:
        self.note(text.strip())

    def note(self, text: str) -> None:
        # Replace the title, because there is no room for both.
        self._bar.update(self._task, description=_escape(text))

    def advance(self) -> None:
        self._bar.update(self._task, advance=1)


@contextlib.contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show a bar on a terminal, or print lines elsewhere, while a run goes on."""
    from rich.progress import MofNCompleteColumn, TextColumn

    bar = _make_bar(MofNCompleteColumn(), TextColumn("[red]{task.fields[failures]}"))
    if bar is None:
        yield _InLines()
        return
    with bar:
        yield _OnTerminal(bar)


@contextlib.contextmanager
def show_task(title: str, steps: int | None = None, *, keep: bool = False) -> Iterator[Task]:
    """Show a bar on a terminal, or print the title elsewhere, while a task goes on.

    Parameters
    ----------
    title
        The task, in a few words.
    steps
        The number of steps, if it is known.
    keep
        Whether the title stays on a terminal after the task.
    """
    from rich.progress import MofNCompleteColumn

    bar = _make_bar(*([] if steps is None else [MofNCompleteColumn()]))
    if bar is None:
        say_line(title)
        yield _TaskInLines()
        return
    if keep:
        say_line(title)
    with bar:
        yield _TaskOnTerminal(bar, bar.add_task(_escape(title), total=steps))


def _make_bar(*columns: ProgressColumn) -> Bar | None:
    """Return a bar with these columns, or None if standard error is not a terminal with a movable cursor."""
    # Import rich only here, because the suite as a library does not need it.
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    # A long description is cut, so that the bar stays on one line.
    description = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
    return Bar(
        SpinnerColumn(),
        description,
        BarColumn(bar_width=10),
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        expand=True,
    )


def _escape(text: str) -> str:
    """Return a text without control characters, in which rich finds no markup."""
    from rich.markup import escape

    return escape(escape_line(text))
