"""Define the verb `gradclip expectations`: update the known failures and claims about frameworks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from gradclip_adapters import registry
from gradclip_adapters.wire import decode_entry_point
from gradclip_reports.progress import say_line
from gradclip_reports.records import RecordError, Run, read_runs
from gradclip_reports.statuses import Status
from gradclip_reports.values import escape_line, escape_text, format_count

from ..cases.catalogue import list_all_cases
from ..known.claims import find_drift, load_claims, read_docstrings
from ..known.failures import find_known_file, load_known
from ..known.propose import propose_known
from ..run.plan import Selection, plan_cells


@click.group(short_help="Update known failures, and check claims about documentations.")
def expectations() -> None:
    """Update known failures, and check claims about the documentations of frameworks."""


@expectations.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--write", is_flag=True, help="Replace the file of known failures, in or below the working directory.")
def update(file: Path, write: bool) -> None:
    """Propose a file of known failures for the record FILE.

    The known failures of ./my_adapter.py are in my_adapter.expectations.toml beside it. Those of our own adapters are
    in expectations/<adapter>.toml. With the proposed file, a run with the same answers has exit code 0.

    The output is the whole file. It keeps the entries that still hold, removes the others, and adds an entry for each
    new finding; write a reason and a URL into each new entry.

    The record must come from a complete run, without --rule, --op, --dtype and --quick.
    --write replaces the file of known failures.
    Without it, redirect the output to another file, because this command reads the present one.
    """
    try:
        runs = read_runs(file)
    except RecordError as problem:
        say_line(str(problem))
        sys.exit(3)
    proposals = []
    for run in runs:
        try:
            path = _find_place(run)
        except ValueError as problem:
            raise click.UsageError(str(problem)) from problem
        if missing := _count_missing(run):
            msg = (
                f"{file} lacks {missing} cells of {run.header.adapter} that this version of the suite has. Check it "
                "again, without --rule, --op, --dtype and --quick."
            )
            raise click.UsageError(escape_line(msg))
        try:
            text = path.read_text(encoding="utf-8") if os.path.isfile(path) else ""
            proposals.append((path, propose_known(run, text)))
        except (OSError, ValueError) as problem:
            raise click.UsageError(str(problem)) from problem
    for path, text in proposals:
        if write:
            _replace(path, text)
        else:
            click.echo(text, nl=False)


def _replace(path: Path, text: str) -> None:
    """Replace a file of known failures, but only below the working directory. The record may be forged."""
    if not path.resolve().is_relative_to(Path.cwd().resolve()):
        msg = f"{path} is not in or below the working directory: go to its folder, or print without --write."
        raise click.UsageError(escape_line(msg))
    beside = path.with_name(f"{path.name}.new")
    try:
        # The path may be a link to another place, so remove it, and open a new file.
        beside.unlink(missing_ok=True)
        with beside.open("x", encoding="utf-8") as stream:
            stream.write(text)
        beside.replace(path)
    except OSError as problem:
        say_line(f"Cannot write the known failures: {problem}")
        sys.exit(3)
    say_line(escape_line(f"Written: {path}"))


def _find_place(run: Run) -> Path:
    """Return the path of the file. Refuse a file that nothing would read, or that lacks the entries of the record.

    Raises
    ------
    ValueError
        If an entry of the present file is not well-formed.
    """
    adapter = run.header.adapter
    kind = registry.find_kind(adapter)
    # A record may hold any name. Use the name in a path only if such an adapter exists.
    if (kind == "name" and adapter not in registry.list_installed()) or (
        kind == "file" and not os.path.isfile(Path(adapter))
    ):
        msg = f"The failures of {adapter!r} cannot be recorded: there is no such adapter here."
        raise click.UsageError(msg)
    path = find_known_file(adapter)
    if path is None:
        msg = (
            f"The failures of a plain function such as {adapter!r} cannot be recorded. Write a file my_adapter.py that "
            "imports it and says adapter = gradclip_adapters.plain.PlainFunction(fn, OP), and check ./my_adapter.py."
        )
        raise click.UsageError(msg)
    known = load_known(adapter)
    if any(cell.status == Status.KNOWN for cell in run.cells) and not known:
        msg = (
            f"The record was made with known failures, and there are none in {path}. Run this in the folder in which "
            "the record was made, and redirect the output to another file."
        )
        raise click.UsageError(msg)
    return path


def _count_missing(run: Run) -> int:
    """Return the number of cells that a complete run of the same entry points has, and that this run lacks."""
    planned = plan_cells([*map(decode_entry_point, run.header.subjects)], list_all_cases(), Selection())
    return len({one.pair for one in planned} - {one.pair for one in run.cells})


@expectations.command("drift", short_help="Compare quotations with the documentation.")
@click.argument("adapter")
@click.option("--python", default=sys.executable, metavar="EXE", help="The Python that has the framework.")
def drift_command(adapter: str, python: str) -> None:
    """Compare the phrases that claims quote with the installed documentation of an ADAPTER's framework.

    The exit code is 1 if a phrase is gone, or if the text around it has changed.
    """
    try:
        claims = load_claims(adapter)
    except ValueError as problem:
        raise click.UsageError(str(problem)) from problem
    names = sorted({claim.docstring for claim in claims if claim.docstring is not None})
    if not names:
        msg = f"No claim quotes a docstring of {adapter!r}."
        raise click.UsageError(msg)
    try:
        found = read_docstrings(names, python)
    except (OSError, ValueError) as problem:
        say_line(f"{python} cannot read the documentation of {adapter!r}: {problem}")
        sys.exit(3)
    sentences = find_drift(claims, found)
    click.echo(escape_text("\n".join(sentences)) or f"As quoted: {format_count(len(claims), 'claim')}.")
    sys.exit(1 if sentences else 0)
