"""Define the verb `gradclip repro`: write a script that shows one cell of a record without this suite."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gradclip_reports.records import Cell, Header, RecordError, read_runs
from gradclip_reports.statuses import SPOILING
from gradclip_reports.values import escape_line

from ..repro.script import NoScript, write_script
from .rules import complete_rule, find_rules, suggest_rules
from .targets import say

__all__ = ["repro"]


@click.command(short_help="Write a script that shows a cell without this suite.")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("case", metavar="CASE|RULE", shell_complete=complete_rule)
@click.option("--subject", default="", metavar="TEXT", help="The subject whose name contains this.")
@click.option("--command", metavar="CMD", help="The command that starts the host, if the record was made with one.")
@click.option("-o", "--output", metavar="SCRIPT", type=click.Path(path_type=Path), help="Write to this file.")
def repro(file: Path, case: str, subject: str, command: str | None, output: Path | None) -> None:
    """Write a script that shows one cell of the record FILE without this suite.

    The script needs only NumPy and the framework. It fails if the framework breaks the neutral rule by more than the
    error bound. It passes for a `documented` cell whose difference of a few ulp is within that bound.

    For a RULE, the script shows the first case that is not as expected. Without --subject, it takes the first subject
    with such a case. Scripts can be written for frameworks that have an adapter here, and for plain functions. For
    others, `gradclip show CASE` prints the input.

    The script imports and runs the framework, or the function's module. Run it only where you would run those.
    """
    try:
        header, cell = _find(file, case, subject)
        text = write_script(header, cell, command)
    except RecordError as problem:
        say(str(problem))
        sys.exit(3)
    except NoScript as problem:
        raise click.UsageError(escape_line(str(problem))) from problem
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as problem:
        say(f"Cannot write the script: {problem}")
        sys.exit(3)


def _find(file: Path, name: str, subject: str) -> tuple[Header, Cell]:
    """Return the cell of a case, or the first cell of a rule that is not as expected."""
    cells = [(run.header, cell) for run in read_runs(file) for cell in run.cells]
    rules = {name, *find_rules(name)}
    of_case = [(header, cell) for header, cell in cells if cell.case == name]
    found = of_case or [(header, cell) for header, cell in cells if cell.rule in rules]
    if not found:
        near = suggest_rules(name, [one for _, cell in cells for one in (cell.rule, cell.case)])
        msg = f"{file} has no cell of the case or rule {name!r}.{near}"
        raise click.UsageError(escape_line(msg))
    named = [(header, cell) for header, cell in found if subject in cell.subject]
    if not named:
        subjects = ", ".join(dict.fromkeys(cell.subject for _, cell in found))
        msg = f"No subject's name contains {subject!r}. The subjects with this case or rule are: {subjects}."
        raise click.UsageError(escape_line(msg))
    # Prefer new failures, and then known ones.
    red = [pair for pair in named if pair[1].status in SPOILING]
    worth = red or [pair for pair in named if pair[1].status == "deviation"]
    if not (worth or of_case):
        msg = f"Every cell of the rule {name!r} is as expected. For a script of such a cell, name its case."
        raise click.UsageError(escape_line(msg))
    return (worth or named)[0]
