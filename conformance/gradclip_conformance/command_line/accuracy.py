"""`gradclip accuracy`: the largest errors of each subject over sizes and dtypes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..accuracy import Row, measure_accuracy, sizes_up_to
from ..answers import StartError
from ..claims import load_claims
from .targets import Target, chosen_targets, python_options, say

__all__ = ["accuracy"]


@click.command()
@click.argument("adapters", nargs=-1, metavar="[ADAPTER|FILE|MODULE:FN]...")
@python_options
@click.option("--largest", default=10**6, show_default=True, type=click.IntRange(100, 10**7), help="Elements at most.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write JSON Lines.")
@click.option("--format", "format_", default="terminal", show_default=True, type=click.Choice(["terminal", "json"]))
def accuracy(
    adapters: tuple[str, ...],
    operation: str | None,
    dtypes: tuple[str, ...],
    pythons: tuple[str, ...],
    command: str | None,
    venv: bool,
    largest: int,
    output: Path | None,
    format_: str,
) -> None:
    """Measure how accurate clips by norm are, with the worst input of each.

    Errors are in ulp of the dtype, of the norm that is returned and of the clipped elements, the latter against the
    formula that the subject's own documentation gives. The spread is how far one element comes out apart when the same
    elements come in another order, or in other tensors. Clips by value round nothing and are left out.
    """
    targets = chosen_targets(adapters, operation=operation, dtypes=dtypes, pythons=pythons, command=command, venv=venv)
    problems = 0
    rows: list[tuple[str, Row]] = []
    for target in targets:
        try:
            rows += [(target.name, row) for row in _measured(target, operation, dtypes, sizes_up_to(largest))]
        except StartError as error:
            problems += 1
            say(f"{target.name} does not start ({error.kind}): {error}")
    lines = [json.dumps({"adapter": name, **row.to_json()}) for name, row in rows]
    if output is not None:
        output.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    if format_ == "json":
        click.echo("\n".join(lines))
    else:
        _print(rows)
    sys.exit(3 if problems else 0)


def _measured(target: Target, operation: str | None, dtypes: Sequence[str], sizes: Sequence[int]) -> list[Row]:
    connection, rows = target.connect(), []
    try:
        for subject in connection.description.subjects:
            if subject.operation == "clip_by_value" or operation not in (None, subject.operation):
                continue
            for dtype in subject.dtypes:
                if dtypes and dtype not in dtypes:
                    continue
                say(f"{subject.name} {dtype}")
                rows += [measure_accuracy(connection, subject, dtype, size, load_claims(target.name)) for size in sizes]
    finally:
        connection.close()
    return rows


def _print(rows: Sequence[tuple[str, Row]]) -> None:
    console = Console(width=max(80, shutil.get_terminal_size().columns))
    for subject, group in groupby((row for _, row in rows), key=lambda row: row.subject):
        # As text: what stands in brackets in a subject's name is no markup.
        table = Table(title=Text(f"{subject}: largest errors in ulp"), title_justify="left", box=SIMPLE)
        for column in ("dtype", "size", "norm", "elements", "spread"):
            table.add_column(column, justify="left" if column == "dtype" else "right")
        table.add_column("worst input", overflow="fold")
        for row in group:
            table.add_row(row.dtype, f"{row.size:,}", *_numbers(row), Text(row.problem or _worst(row)))
        console.print(table)


def _numbers(row: Row) -> tuple[str, str, str]:
    if row.problem:
        return ("-", "-", "-")
    return ("-" if row.norm is None else f"{row.norm:.3g}", f"{row.elements:.3g}", f"{row.spread:.3g}")


def _worst(row: Row) -> str:
    if row.norm is None or row.norm_input == row.elements_input:
        return row.elements_input
    return f"norm: {row.norm_input}; elements: {row.elements_input}"
