"""Define the verb `gradclip smoke`: find out whether an adapter starts and answers."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import groupby

import click

from gradclip_reports.layout import find_width, wrap_text
from gradclip_reports.progress import say_line
from gradclip_reports.statuses import SPOILING
from gradclip_reports.values import escape_line

from ..cases.catalogue import list_all_cases
from ..judge.model import StartError
from ..run.plan import Selection, plan_cells
from ..run.runner import CASE_SECONDS, load_knowledge, run_cells
from .targets import (
    Target,
    TargetOptions,
    add_target_options,
    choose_targets,
    complete_target,
    say_that_it_does_not_start,
)

#: A simple case for each operation, above its threshold.
SMOKE_RULES = ("value.bounds/max-only/*", "value.bounds/min-and-max/*", "*.scaled-above/three-four-five/*")


@click.command(short_help="Start adapters, and ask each entry point one simple case.")
@click.argument("adapters", nargs=-1, metavar="[ADAPTER|FILE|MODULE:FN]...", shell_complete=complete_target)
@add_target_options
def smoke(adapters: tuple[str, ...], options: TargetOptions) -> None:
    """Start adapters and ask each of their entry points one simple case, which takes seconds."""
    targets = choose_targets(adapters, options)
    selection = replace(options, dtypes=options.dtypes or ("float32",)).select_cells(SMOKE_RULES)
    sys.exit(max((_ask_target(target, selection) for target in targets), default=0))


def _ask_target(target: Target, selection: Selection) -> int:
    try:
        connection = target.connect()
    except StartError as error:
        say_that_it_does_not_start(target, error)
        return 3
    try:
        description = connection.description
        click.echo(escape_line(f"{target.label}: {description.heading}, Python {description.environment['python']}"))
        planned = plan_cells(description.subjects, list_all_cases(), selection)
        cells = list(run_cells(connection, planned, CASE_SECONDS, load_knowledge(target.name, description)))
    finally:
        connection.close()
    supported = (cell for cell in cells if cell.status != "unsupported")
    for entry_point, answered in groupby(supported, lambda one: one.subject):
        click.echo(f"  {escape_line(entry_point)}")
        for cell in answered:
            status = click.style(f"{cell.status:11}", fg="red" if cell.status in SPOILING else "green")
            click.echo(f"    {status} {escape_line(cell.case)}")
            for line in cell.detail.splitlines():
                click.echo("\n".join(wrap_text(escape_line(line), find_width(), *["      "] * 2)))
    if not any(cell.status != "unsupported" for cell in cells):
        say_line(f"{target.label} supports none of the cases that were asked.")
        return 3
    if any(cell.status == "error" for cell in cells):
        return 3
    return 1 if any(cell.status in SPOILING for cell in cells) else 0
