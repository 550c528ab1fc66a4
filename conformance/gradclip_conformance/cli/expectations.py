"""`gradclip expectations`: keep what is known of frameworks in step with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from gradclip_adapters import registry
from gradclip_adapters.wire import subject_from_json
from gradclip_reports.records import RecordError, Run, read_runs
from gradclip_reports.values import counted, plain_line

from ..cases.catalogue import all_cases
from ..known.claims import docstrings, drift, load_claims
from ..known.pins import FOUND, load_deviations, pins_file
from ..known.propose import CannotPin, proposal
from ..run.plan import Selection, plan_cells
from .targets import say

__all__ = ["expectations"]


@click.group(short_help="Keep pins and claims in step with the frameworks.")
def expectations() -> None:
    """Keep pinned deviations and claims about documentation in step with the frameworks."""


@expectations.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--write", is_flag=True, help="Replace the file of pins, in or below the working directory.")
def update(file: Path, write: bool) -> None:
    """Propose the file of pins for the record FILE.

    Of ./my_adapter.py that is my_adapter.expectations.toml beside it; of our own adapters, expectations/<adapter>.toml.
    Printed is the whole file: the pins that stand, with the version as the last in which they were seen; a pin for
    each group of failures that is not pinned or answers otherwise now, to be given a reason and a URL; and, as
    comments, what is wrong with pins. A run that answers as the record does is as expected with it.
    The record must be of a run that was not narrowed. --write replaces the file of pins. Without it, print to another
    file first: the pins that are there are read.
    """
    try:
        runs = read_runs(file)
    except RecordError as problem:
        say(str(problem))
        sys.exit(3)
    for run in runs:
        _refuse_without_a_place(run)
        if missing := _missing(run):
            msg = (
                f"{file} lacks {missing} cells of {run.header.adapter} that this version of the suite has: check it "
                "again, without --rule, --op and --dtype."
            )
            raise click.UsageError(plain_line(msg))
    try:
        proposals = [(pins_file(run.header.adapter), proposal(run)) for run in runs]
    except CannotPin as problem:
        raise click.UsageError(str(problem)) from problem
    for path, text in proposals:
        if write:
            _replace(path, text)
        else:
            click.echo(text, nl=False)


def _replace(path: Path, text: str) -> None:
    """Replace a file of pins at once, unless it lies elsewhere: the record says where, and may come from anybody."""
    if not path.resolve().is_relative_to(Path.cwd().resolve()):
        msg = f"{path} is not in or below the working directory: go to its folder, or print without --write."
        raise click.UsageError(plain_line(msg))
    beside = path.with_name(f"{path.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as problem:
        say(f"Cannot write the pins: {problem}")
        sys.exit(3)
    say(plain_line(f"Written: {path}"))


def _refuse_without_a_place(run: Run) -> None:
    """Refuse to propose pins that nothing would read, or without those by which the record was judged."""
    adapter = run.header.adapter
    kind = registry.kind_of(adapter)
    # The name in a record becomes a path only if it is one of an adapter that is here.
    if (kind == "name" and adapter not in registry.installed()) or (kind == "file" and not Path(adapter).is_file()):
        msg = f"There is no adapter {adapter!r} here whose failures could be pinned."
        raise click.UsageError(msg)
    if kind == "function":
        msg = (
            f"Nothing is pinned of a plain function such as {adapter!r}: write a file my_adapter.py that imports it "
            "and says adapter = gradclip_adapters.plain.PlainFunction(fn, OP), and check ./my_adapter.py."
        )
        raise click.UsageError(msg)
    if any(cell.status in FOUND for cell in run.cells) and not load_deviations(adapter):
        msg = (
            f"The record was made with pins, and there are none in {pins_file(adapter)}: propose them in the folder in "
            "which it was made, and print to another file first."
        )
        raise click.UsageError(msg)


def _missing(run: Run) -> int:
    """Return how many of all cells of a run's subjects are missing from it."""
    planned = plan_cells([*map(subject_from_json, run.header.subjects)], all_cases(), Selection())
    return len({(one.subject.name, one.case.id) for one in planned} - {(one.subject, one.case) for one in run.cells})


@expectations.command("drift", short_help="Compare what is quoted with the documentation.")
@click.argument("adapter")
@click.option("--python", default=sys.executable, metavar="EXE", help="The Python that has the framework.")
def drift_command(adapter: str, python: str) -> None:
    """Compare what is quoted from an ADAPTER's framework with its installed documentation.

    Exit code 1 when a phrase is gone, or the text around it has changed.
    """
    claims = load_claims(adapter)
    names = sorted({claim.docstring for claim in claims if claim.docstring is not None})
    if not names:
        msg = f"Nothing is quoted from a docstring of {adapter!r}."
        raise click.UsageError(msg)
    try:
        found = docstrings(names, python)
    except (OSError, subprocess.CalledProcessError) as problem:
        said = (getattr(problem, "stderr", None) or str(problem)).strip().splitlines()
        say(f"{python} cannot read the documentation of {adapter!r}: {said[-1]}")
        sys.exit(3)
    sentences = drift(claims, found)
    click.echo("\n".join(sentences) or f"As quoted: {counted(len(claims), 'claim')}.")
    sys.exit(1 if sentences else 0)
