"""`gradclip rules`: the rule book in short."""

from __future__ import annotations

import textwrap
from collections import Counter

import click

from gradclip_reports.values import counted
from gradclip_spec import rules as rule_book

from ..cases.catalogue import all_cases
from ..cases.patterns import matches

__all__ = ["rules"]


@click.command(short_help="List the rules, their levels and numbers of cases.")
@click.argument("pattern", default="*", metavar="[GLOB]")
def rules(pattern: str) -> None:
    """List the rules with their levels and the number of their cases; `gradclip show RULE` tells all about one.

    The last line tells which rules have no case, and which cases no rule.
    """
    counts = Counter(case.rule for case in all_cases())
    chosen = [rule for rule in rule_book.load() if matches(pattern, rule.id)]
    if not chosen:
        msg = f"No rule matches {pattern!r}."
        raise click.UsageError(msg)
    for rule in chosen:
        click.echo(f"{click.style(rule.id, bold=True)}  {rule.level}, {counted(counts[rule.id], 'case')}")
        click.echo(textwrap.indent(textwrap.fill(rule.statement, 76), "    "))
    lone = [rule.id for rule in chosen if not counts[rule.id]]
    stray = sorted(set(counts) - {rule.id for rule in rule_book.load()})
    total = counted(sum(counts[rule.id] for rule in chosen), "case")
    click.echo(f"\n{counted(len(chosen), 'rule')}, {total}.")
    click.echo(f"Without a case: {', '.join(lone) or 'none'}. Cases without a rule: {', '.join(stray) or 'none'}.")
