"""Define the verb `gradclip summary`: show records in any format."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from gradclip_reports.brief import draw_brief
from gradclip_reports.layout import find_width, uses_color
from gradclip_reports.progress import say_line
from gradclip_reports.records import RecordError, Run, read_partial, read_runs
from gradclip_reports.render import FORMATS, render
from gradclip_reports.statuses import SPOILING
from gradclip_reports.terminal import draw_terminal
from gradclip_reports.values import escape_line

partial_option = click.option(
    "--partial", is_flag=True, help="Read runs that were cut off, such as FILE.part, as far as they are there."
)


@click.command(short_help="Show the records of one or more runs.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path, exists=True))
@click.option("--format", "format_", default="terminal", show_default=True, type=click.Choice(FORMATS))
@click.option("-v", "--verbose", is_flag=True, help="In a terminal, also show the table of all rules.")
@partial_option
def summary(files: tuple[Path, ...], format_: str, verbose: bool, partial: bool) -> None:
    """Show the records of one or more runs; a folder stands for the records in it.

    The exit code is 3 if a record cannot be read or is read in part, or if no cell of a run was judged. It is 1 if
    something is not as expected.
    """
    runs: list[Run] = []
    problems = 0
    paths = find_records(files)
    for path in paths:
        try:
            read = [read_partial(path)] if partial else read_runs(path)
        except (RecordError, OSError) as error:
            problems += 1
            say_line(str(error))
            continue
        for run in read:
            refuse_second(run, runs, path)
            runs.append(run)
    if not paths:
        say_line(f"There is no record (*.jsonl, *.jsonl.gz) in {', '.join(map(str, files))}.")
    for run in runs:
        if not run.is_judged:
            what = "no judged cells" if run.cells else "no cells"
            say_line(escape_line(f"The record of {run.header.adapter} has {what}."))
    print_runs(runs, format_, [str(file) for file in files], verbose=verbose)
    if partial:
        say_line("This is a part: the runs were cut off, and so have no findings.")
    sys.exit(choose_exit_code(runs, problems or partial or not all(run.is_judged for run in runs) or not runs))


def find_records(paths: Iterable[Path]) -> list[Path]:
    """Return these paths. In place of a folder, return the records in it, compressed ones included."""
    return [
        record
        for path in paths
        for record in (sorted([*path.glob("*.jsonl"), *path.glob("*.jsonl.gz")]) if path.is_dir() else [path])
    ]


def refuse_second(run: Run, earlier: Sequence[Run], path: Path) -> None:
    """Refuse a run that is one of the earlier runs.

    Raises
    ------
    click.UsageError
        If it is.
    """
    if run in earlier:
        msg = f"The run of {run.header.adapter} in {path} is given twice."
        raise click.UsageError(escape_line(msg))


def print_runs(runs: Sequence[Run], format_: str, records: Sequence[str] = (), *, verbose: bool = False) -> None:
    """Print runs in one of the formats of `gradclip_reports.render`. Print nothing if there are none.

    Hints in the output name `records`, the paths of the runs' records, if these are kept. With `verbose`, a terminal
    also gets the table of all rules.
    """
    if not runs:
        return
    if format_ == "terminal":
        width, color, record = find_width(), uses_color(sys.stdout), shlex.join(records)
        draw = draw_terminal if verbose else draw_brief
        click.echo(draw(runs, width=width, record=record, color=color), nl=False)
    else:
        click.echo(render(runs, format_).rstrip("\n"))


def choose_exit_code(runs: Sequence[Run], problems: int = 0) -> int:
    """Return the exit code of runs.

    0: all is as expected. 1: something is not. 3: a fault of the suite or of an adapter, an adapter that did not start,
    or a run in which nothing was judged.
    """
    statuses = {cell.status for run in runs for cell in run.cells}
    if problems or "error" in statuses or not all(run.is_judged for run in runs):
        return 3
    return 1 if statuses & SPOILING else 0
