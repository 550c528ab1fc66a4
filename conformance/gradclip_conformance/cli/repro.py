"""`gradclip repro`: a script that shows one cell of a record without this suite."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gradclip_reports.records import Cell, Header, RecordError, read_runs
from gradclip_reports.statuses import SPOILING

from ..repro.script import NoScript, script
from .targets import say

__all__ = ["repro"]


@click.command(short_help="Write a script that shows a cell without this suite.")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("case")
@click.option("--subject", default="", metavar="TEXT", help="The subject whose name contains this.")
@click.option("-o", "--output", metavar="SCRIPT", type=click.Path(path_type=Path), help="Write to this file.")
def repro(file: Path, case: str, subject: str, output: Path | None) -> None:
    """Write a script that shows one cell of the record FILE without this suite.

    The script needs NumPy and the framework only, has the numbers written out, and fails by itself where the
    framework breaks the neutral rule by more than the error bound: that of a `documented` cell that is a few ulp off
    passes. Without --subject it is about the first subject whose cell is not as expected. How to call them is known
    of the frameworks that have an adapter here, and of plain functions; of others, `gradclip show CASE` prints the
    input.
    """
    try:
        header, cell = _find(file, case, subject)
        text = script(header, cell)
    except RecordError as problem:
        say(str(problem))
        sys.exit(3)
    except NoScript as problem:
        raise click.UsageError(str(problem)) from problem
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as problem:
        say(f"Cannot write the script: {problem}")
        sys.exit(3)


def _find(file: Path, case: str, subject: str) -> tuple[Header, Cell]:
    found = [(run.header, cell) for run in read_runs(file) for cell in run.cells if cell.case == case]
    if not found:
        msg = f"{file} has no cell of the case {case!r}."
        raise click.UsageError(msg)
    named = [(header, cell) for header, cell in found if subject in cell.subject]
    if not named:
        msg = f"No subject of that case has {subject!r} in its name: {', '.join(cell.subject for _, cell in found)}."
        raise click.UsageError(msg)
    worth = [(header, cell) for header, cell in named if cell.status in SPOILING or cell.status == "deviation"]
    return (worth or named)[0]
