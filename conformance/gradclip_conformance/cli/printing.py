"""Print results on standard output: with colour and at its width on a terminal, without elsewhere."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence

import click

from gradclip_reports.records import Run
from gradclip_reports.render import render
from gradclip_reports.statuses import UNJUDGED
from gradclip_reports.terminal import terminal

from ..judge.verdict import SPOILING

__all__ = ["exit_code", "is_judged", "print_runs"]


def print_runs(runs: Sequence[Run], format_: str, records: Sequence[str] = ()) -> None:
    """Print runs in a format; nothing when there are none.

    Parameters
    ----------
    records
        The paths at which their records are, if they are kept.
    """
    if not runs:
        return
    if format_ == "terminal":
        width = shutil.get_terminal_size((80, 24)).columns
        record = shlex.join(records) or "FILE"
        click.echo(terminal(runs, width=max(60, width), color=sys.stdout.isatty(), record=record), nl=False)
    else:
        click.echo(render(runs, format_).rstrip("\n"))


def is_judged(run: Run) -> bool:
    """Whether anything was judged in a run: of what is unsupported or unspecified nothing is said."""
    return any(cell.status not in UNJUDGED for cell in run.cells)


def exit_code(runs: Sequence[Run], problems: int = 0) -> int:
    """Return the exit code of runs.

    0: as expected; 1: something spoils a run; 3: a fault of the suite or an adapter, an adapter that did not start, or
    a run in which nothing was judged.
    """
    statuses = {cell.status for run in runs for cell in run.cells}
    if problems or "error" in statuses or not all(map(is_judged, runs)):
        return 3
    return 1 if statuses & SPOILING else 0
