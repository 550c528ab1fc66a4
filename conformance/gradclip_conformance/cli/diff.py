"""Define the verb `gradclip diff`: show the differences between two frameworks, entry points, versions or runs."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from gradclip_reports.difference import Side, choose_entry_points, choose_on_meshes, compare
from gradclip_reports.difference_text import draw
from gradclip_reports.layout import find_width, uses_color
from gradclip_reports.progress import progress_bar
from gradclip_reports.records import RecordError, Run, read_runs
from gradclip_reports.statuses import SEVERITIES
from gradclip_spec.rules.questions import load_questions

from ..cases.patterns import matches, suggest_known
from ..judge.model import StartError
from ..run.runner import RunRequest, run_adapter
from .targets import (
    TargetOptions,
    add_target_options,
    choose_targets,
    complete_target,
    parse_with,
    say_that_it_does_not_start,
)


def _parse_severities(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in SEVERITIES:
            msg = f"There is no severity {name!r}.{suggest_known(name, SEVERITIES)}"
            raise ValueError(msg)
    return names


@click.command(short_help="Say what changes between two adapters or records.")
@click.argument("first", metavar="A[:ENTRY_POINT]", shell_complete=complete_target)
@click.argument("second", metavar="B[:ENTRY_POINT]", shell_complete=complete_target)
@add_target_options
@click.option("--format", "format_", default="terminal", type=click.Choice(["terminal", "markdown", "json"]))
@click.option(
    "--fail-on",
    default="",
    callback=parse_with(_parse_severities),
    help="Exit with 1 on such a difference: wrong,destroyed.",
)
def diff(first: str, second: str, options: TargetOptions, format_: str, fail_on: tuple[str, ...]) -> None:
    """Compare two adapters or records: first their formulas, then their differences, the severest first.

    A and B are names or files of adapters, which are run now, or records that `gradclip check -o` wrote. Without
    ENTRY_POINT, it compares, for each operation, the entry point that answers most cases, and the one on a mesh.

    \b
    gradclip diff torch tensorflow --venv
    gradclip diff old.jsonl new.jsonl --fail-on destroyed,unclipped,wrong
    """  # noqa: D301 - click needs the character itself, and a raw docstring would hide it
    sides = [_read_side(text, options) for text in (first, second)]
    if sides[0].name == sides[1].name:
        devices = [side.run.header.environment.get("device", "") for side in sides]
        labels = devices if len({*devices}) == 2 and all(devices) else ["A", "B"]
        sides = [replace(side, name=f"{side.name} ({label})") for side, label in zip(sides, labels, strict=True)]
    compared = compare(sides[0], sides[1], options.dtypes, load_questions())
    click.echo(draw(compared, format_, find_width(), color=uses_color(sys.stdout)), nl=False)
    sys.exit(1 if compared.severities & {*fail_on} else 0)


def _read_side(text: str, options: TargetOptions) -> Side:
    """Return one side of the comparison, from a record or from a run that is made now."""
    path, wanted = _find_record(text)
    if path is not None:
        try:
            run = read_runs(path)[-1]
        except (RecordError, OSError) as error:
            raise click.UsageError(str(error)) from error
    elif os.path.isdir(Path(text)):
        msg = f"{text!r} is a folder: name one record in it, or an adapter's Python file."
        raise click.UsageError(msg)
    else:
        name, _, wanted = text.partition(":")
        run = _run(name, options)
    names = [entry_point["name"] for entry_point in run.header.subjects]
    chosen = [name for name in names if matches(wanted, name)] if wanted else []
    if wanted and not chosen:
        msg = f"{run.header.adapter} has no entry point {wanted!r}.{suggest_known(wanted, names)}"
        raise click.UsageError(msg)
    on_meshes = () if chosen else choose_on_meshes(run)
    return Side(run.header.heading, run, tuple(dict.fromkeys((*choose_entry_points(run, chosen), *on_meshes))))


def _find_record(text: str) -> tuple[Path | None, str]:
    """Return the record that a text names, and the entry point after a colon."""
    if text.endswith(".py"):
        # The file of an adapter.
        return None, ""
    if os.path.isfile(Path(text)):
        return Path(text), ""
    head, _, tail = text.partition(".jsonl")
    suffix = ".gz" if tail.startswith(".gz") else ""
    path = Path(f"{head}.jsonl{suffix}")
    if "." in text and os.path.isfile(path):
        return path, tail.removeprefix(suffix).removeprefix(":")
    return None, ""


def _run(name: str, options: TargetOptions) -> Run:
    (target,) = choose_targets([name], options)
    try:
        with progress_bar() as progress:
            request = RunRequest(target.name, target.connect, options.select_cells())
            return run_adapter(request, progress)
    except StartError as error:
        say_that_it_does_not_start(target, error)
        sys.exit(3)
