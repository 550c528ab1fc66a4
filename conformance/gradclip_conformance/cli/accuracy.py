"""Define the verb `gradclip accuracy`: measure the largest errors of each entry point over sizes and dtypes."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.lines import RecordError
from gradclip_reports.progress import say_line, show_task
from gradclip_reports.site.measured import read_accuracy
from gradclip_reports.values import escape_line
from gradclip_spec import rules as rule_book

from ..accuracy.measure import list_sizes, measure_accuracy
from ..accuracy.page import describe_framework, format_cells, keep_others, make_document, write_files
from ..judge.model import StartError
from ..known.claims import load_claims_of
from ..run.environments.recipes import read_recipes
from .targets import (
    Target,
    TargetOptions,
    add_target_options,
    choose_targets,
    complete_target,
    say_that_it_does_not_start,
)

#: The operations whose accuracy is measured: those with a rule about it.
MEASURED = {rule.operation for rule in rule_book.load() if rule.name == "large-tensor-accuracy"}


@click.command(short_help="Measure how accurate clips by norm are.")
@click.argument("adapters", nargs=-1, metavar="[ADAPTER|FILE|MODULE:FN]...", shell_complete=complete_target)
@add_target_options
@click.option(
    "--largest",
    default=10**6,
    show_default=True,
    type=click.IntRange(100, 10**7),
    help="The largest number of elements.",
)
@click.option("-o", "--output", metavar="NAME", type=click.Path(path_type=Path), help="Write NAME.json and NAME.md.")
@click.option("--update", is_flag=True, help="Keep what NAME.json says of other adapters.")
def accuracy(
    adapters: tuple[str, ...],
    options: TargetOptions,
    largest: int,
    output: Path | None,
    update: bool,
) -> None:
    """Measure how accurate clips by norm are, and show the worst inputs.

    Errors are in ulp of the dtype. The returned norm is compared with the exact norm. The clipped elements are compared
    with the formula of the entry point's own documentation. The spread is the largest difference between results when
    the same elements come in another order or in other tensors. Clips by value are left out: they round nothing.
    """
    targets = choose_targets(adapters, options)
    if output is not None and not os.path.isdir(output.parent):
        msg = f"-o {output}: there is no folder {output.parent}."
        raise click.UsageError(msg)
    if output is not None and output.name in ("", ".."):
        msg = f"-o {output} names a folder, not a file."
        raise click.UsageError(msg)
    earlier = _read_earlier(output) if update else None
    problems, measured = 0, []
    for target in targets:
        try:
            measured.append(_measure(target, options.operation, options.dtypes, list_sizes(largest)))
        except StartError as error:
            problems += 1
            say_that_it_does_not_start(target, error)
    for framework in measured:
        _print(framework["rows"])
    if not any(framework["rows"] for framework in measured):
        # The message about an adapter that does not start has been printed.
        say_line(
            "Nothing was measured"
            + (", because clips by value round nothing." if measured else ", and nothing is written.")
        )
        problems += 1
    elif output is not None:
        measured = [framework for framework in measured if framework["rows"]]
        made = make_document(measured if earlier is None else keep_others(measured, earlier, list(read_recipes())))
        try:
            write_files(made, output)
        except OSError as problem:
            say_line(f"Cannot write the measurements: {problem}")
            problems += 1
    sys.exit(3 if problems else 0)


def _read_earlier(output: Path | None) -> Mapping[str, Any]:
    """Return the document that is to be updated, or refuse to update what is not there."""
    if output is None:
        msg = "--update needs -o NAME: it says which file is updated."
        raise click.UsageError(msg)
    path = output.with_name(output.name + ".json")
    try:
        read_accuracy(path)
        earlier: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except RecordError as error:
        raise click.UsageError(str(error)) from error
    return earlier


def _measure(target: Target, operation: str | None, dtypes: Sequence[str], sizes: Sequence[int]) -> dict[str, Any]:
    connection, rows = target.connect(), []
    description = connection.description
    claims = load_claims_of(target.name, description.version, description.environment)
    try:
        places = [
            (entry_point, dtype)
            for entry_point in description.subjects
            if OPERATIONS[entry_point.operation].prefix in MEASURED and operation in (None, entry_point.operation)
            # Every process would need a part of the gradients.
            if "distributed" not in entry_point.features
            for dtype in entry_point.dtypes
            if not dtypes or dtype in dtypes
        ]
        with show_task(f"{target.label}: measuring the accuracy", len(places) * len(sizes)) as task:
            for entry_point, dtype in places:
                for size in sizes:
                    task.note(f"{dtype}, {size:,} elements: {entry_point.name}")
                    rows.append(measure_accuracy(connection, entry_point, dtype, size, claims))
                    task.advance()
    finally:
        connection.close()
    return describe_framework(target.name, description, rows)


def _print(rows: Sequence[Mapping[str, Any]]) -> None:
    size = shutil.get_terminal_size()
    # If no height is given, rich ignores the width of a terminal whose TERM is "dumb".
    console = Console(width=max(80, size.columns), height=size.lines)
    for entry_point, group in groupby(rows, key=lambda row: row["subject"]):
        # Use `Text`, because rich reads brackets in a string, such as an entry point's name, as markup.
        title = Text(escape_line(f"{entry_point}: largest errors in ulp"))
        table = Table(title=title, title_justify="left", box=SIMPLE)
        for column in ("dtype", "size", "norm", "elements", "spread"):
            table.add_column(column, justify="left" if column == "dtype" else "right", no_wrap=True)
        table.add_column("worst input", overflow="fold")
        for *cells, worst in map(format_cells, group):
            table.add_row(*cells, Text(escape_line(worst)))
        console.print(table)
