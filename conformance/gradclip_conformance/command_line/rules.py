"""`gradclip rules`: the rule book in short."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase

import click
from rich import box
from rich.console import Console
from rich.table import Table

from gradclip_spec import rules as rule_book

from ..cases import all_cases

__all__ = ["rules"]


@click.command()
@click.argument("pattern", default="*", metavar="[GLOB]")
def rules(pattern: str) -> None:
    """List the rules with their levels and the number of their cases; `gradclip show RULE` tells all about one."""
    counts = Counter(case.rule for case in all_cases())
    chosen = [rule for rule in rule_book.load() if fnmatchcase(rule.id, pattern)]
    if not chosen:
        msg = f"No rule matches {pattern!r}."
        raise click.UsageError(msg)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("rule", no_wrap=True)
    table.add_column("level")
    table.add_column("cases", justify="right")
    table.add_column("statement", overflow="fold")
    for rule in chosen:
        table.add_row(rule.id, rule.level, str(counts[rule.id]), rule.statement)
    Console().print(table)
