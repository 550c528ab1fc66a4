"""Print results on standard output: with colour and at its width on a terminal, without elsewhere."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence

import click

from gradclip_reports.records import Run
from gradclip_reports.render import render
from gradclip_reports.terminal import terminal

__all__ = ["print_runs"]


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
