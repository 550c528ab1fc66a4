"""`gradclip adapters`: what there is to check, and where."""

from __future__ import annotations

import click
from rich import box
from rich.console import Console
from rich.table import Table

from gradclip_adapters import registry

from ..environments import framework_is_here, recipes

__all__ = ["adapters"]


@click.command()
def adapters() -> None:
    """List the adapters by name, and whether this Python has their framework."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("adapter", "framework here", "with --venv", "module"):
        table.add_column(heading, overflow="fold")
    for name, where in sorted(registry.installed().items()):
        recipe = recipes().get(name)
        needs = ", ".join(recipe.requirements) if recipe else ""
        python = f"Python {recipe.python}: " if recipe and recipe.python else ""
        table.add_row(
            name, "yes" if framework_is_here(name) else "no", python + needs or "this Python", where.partition(":")[0]
        )
    Console().print(table)
