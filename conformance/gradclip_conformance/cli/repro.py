"""Define the verb `gradclip repro`: write a script that shows one cell of a record without this suite."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from gradclip_reports.progress import say_line
from gradclip_reports.records import Cell, Finding, RecordError, Run, read_runs
from gradclip_reports.statuses import SPOILING
from gradclip_reports.values import escape_line, format_count

from ..repro.issue import choose_cell, find_thread, write_issue
from ..repro.script import NoScript, write_script
from .rules import complete_rule, find_rules, suggest_rules


@click.command(short_help="Write a script that shows a cell without this suite.")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("name", metavar="CASE|RULE|FINDING", shell_complete=complete_rule)
@click.option("--entry-point", default="", metavar="TEXT", help="The entry point whose name contains this.")
@click.option("--command", metavar="CMD", help="The command that starts the host, if the record was made with one.")
@click.option("--issue", is_flag=True, help="Write the text of an issue for the framework's project.")
@click.option(
    "--other",
    "others",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="With --issue: the record of another version, to say in which versions it happens.",
)
@click.option("-o", "--output", metavar="SCRIPT", type=click.Path(path_type=Path), help="Write to this file.")
def repro(
    file: Path,
    name: str,
    entry_point: str,
    command: str | None,
    issue: bool,
    others: tuple[Path, ...],
    output: Path | None,
) -> None:
    """Write a script that shows one cell of the record FILE without this suite.

    The script needs only NumPy and the framework. It fails if the framework breaks the neutral rule by more than the
    error bound. It passes for a `documented` cell whose difference of a few ulp is within that bound.

    For a RULE, the script shows the first case that is not as expected. Without --entry-point, it takes the first entry
    point with such a case. For a FINDING, it shows the smallest example. A finding is named by its cause, such as
    `negative-threshold`, or by its number in the record: 1 is the worst one. Scripts can be written for frameworks that
    have an adapter here, and for plain functions. For others, `gradclip show CASE` prints the input.

    With --issue, the verb writes a text for the framework's project, in Markdown: the title, the script, the answer,
    what the documentation says, and where it happens. Read the text, and run the script, before you send it.

    The script imports and runs the framework, or the function's module. Run it only where you would run those.
    """
    if others and not issue:
        msg = "--other needs --issue."
        raise click.UsageError(msg)
    try:
        text = _write(file, name, entry_point, command, issue, others)
    except RecordError as problem:
        say_line(str(problem))
        sys.exit(3)
    except NoScript as problem:
        raise click.UsageError(escape_line(str(problem))) from problem
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as problem:
        say_line(f"Cannot write the script: {problem}")
        sys.exit(3)


def _write(file: Path, name: str, entry_point: str, command: str | None, issue: bool, others: Sequence[Path]) -> str:
    """Return the script of a case, a rule or a finding, or the text of an issue about its finding."""
    runs = read_runs(file)
    finding: Finding | None
    if found := _find_finding(runs, name, entry_point):
        # A thread is about one cause.
        run, finding = found[0], found[1].singles[0] if issue else found[1]
        cell = choose_cell(run, finding, entry_point, command)
    else:
        run, cell = _find_cell(file, runs, name, entry_point)
        finding = run.map_singles().get(cell.pair)
    if not issue:
        return write_script(run.header, cell, command)
    if finding is None:
        msg = f"The cell {cell.case} of {cell.subject} belongs to no finding: its status is {cell.status}."
        raise click.UsageError(escape_line(msg))
    if thread := find_thread(finding):
        say_line(f"A thread about this exists: {escape_line(thread)}")
    older = [each for other in others for each in read_runs(other)]
    return write_issue(run, finding, cell, older, command)


def _find_finding(runs: Sequence[Run], name: str, entry_point: str) -> tuple[Run, Finding] | None:
    """Return the finding with this number or cause, of entry points whose name contains a text."""
    listed = [(run, finding) for run in runs for finding in run.findings]
    if name.isdecimal():
        if not 1 <= int(name) <= len(listed):
            msg = f"The record has {format_count(len(listed), 'finding')}, and no number {name}."
            raise click.UsageError(msg)
        return listed[int(name) - 1]
    every = [(run, one) for run, finding in listed for one in (finding, *finding.parts)]
    named = [(run, one) for run, one in every if one.cause == name and any(entry_point in each for each in one.cells)]
    return named[0] if named else None


def _find_cell(file: Path, runs: Sequence[Run], name: str, entry_point: str) -> tuple[Run, Cell]:
    """Return the cell of a case, or the first cell of a rule that is not as expected."""
    cells = [(run, cell) for run in runs for cell in run.cells]
    rules = {name, *find_rules(name)}
    of_case = [(run, cell) for run, cell in cells if cell.case == name]
    found = of_case or [(run, cell) for run, cell in cells if cell.rule in rules]
    if not found:
        near = suggest_rules(name, [one for _, cell in cells for one in (cell.rule, cell.case)])
        msg = f"{file} has no case, rule or finding {name!r}.{near}"
        raise click.UsageError(escape_line(msg))
    named = [(run, cell) for run, cell in found if entry_point in cell.subject]
    if not named:
        entry_points = ", ".join(dict.fromkeys(cell.subject for _, cell in found))
        msg = f"No entry point's name contains {entry_point!r}. Those with this case or rule are: {entry_points}."
        raise click.UsageError(escape_line(msg))
    # Prefer new failures, and then known ones.
    red = [pair for pair in named if pair[1].status in SPOILING]
    worth = red or [pair for pair in named if pair[1].status == "known"]
    if not (worth or of_case):
        msg = f"Every cell of the rule {name!r} is as expected. For a script of such a cell, name its case."
        raise click.UsageError(escape_line(msg))
    return (worth or named)[0]
