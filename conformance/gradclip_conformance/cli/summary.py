"""`gradclip summary`: show records again, in any format."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gradclip_reports.records import RecordError, Run, read_runs
from gradclip_reports.render import FORMATS
from gradclip_reports.values import plain_line

from .printing import exit_code, print_runs
from .targets import say

__all__ = ["summary"]


@click.command(short_help="Show the records of one or more runs.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path, exists=True))
@click.option("--format", "format_", default="terminal", show_default=True, type=click.Choice(FORMATS))
def summary(files: tuple[Path, ...], format_: str) -> None:
    """Show the records of one or more runs; a folder stands for the records in it.

    Exit code 3 when a record cannot be read, or a run has no cell that was judged.
    """
    runs: list[Run] = []
    problems = 0
    paths = [path for file in files for path in (sorted(file.glob("*.jsonl")) if file.is_dir() else [file])]
    for path in paths:
        try:
            read = read_runs(path)
        except (RecordError, OSError) as error:
            problems += 1
            say(str(error))
            continue
        for run in read:
            if run in runs:
                msg = f"The run of {run.header.adapter} that {path} holds has been read before: give each record once."
                raise click.UsageError(plain_line(msg))
            runs.append(run)
    if not paths:
        say(f"There is no record (*.jsonl) in {', '.join(map(str, files))}.")
    for run in runs:
        if not run.is_judged:
            what = "no cell that was judged" if run.cells else "no cells"
            say(plain_line(f"The record of {run.header.adapter} has {what}."))
    print_runs(runs, format_, [str(file) for file in files])
    sys.exit(exit_code(runs, problems or not all(run.is_judged for run in runs) or not runs))
