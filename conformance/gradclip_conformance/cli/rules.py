"""Define the verb `gradclip rules`: list the rules briefly; find the rules that a text names."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches

import click
from click.shell_completion import CompletionItem

from gradclip_adapters.operations import find_operation
from gradclip_reports.values import format_count
from gradclip_spec import rules as rule_book

from ..cases.catalogue import list_all_cases
from ..cases.patterns import matches, suggest_names
from ..sampler.rows import list_all_rows


def find_rules(text: str) -> list[str]:
    """Return the ids of the rules that a text names.

    The text may be an id, a pattern of ids, an operation, or the name of a rule without its operation.
    """
    ids = [rule.id for rule in rule_book.load()]
    spelling, _, name = text.rstrip(".").partition(".")
    operation = find_operation(spelling)
    pattern = f"{operation.prefix}.{name or '*'}" if operation else text
    return [one for one in ids if matches(pattern, one)] or [one for one in ids if one.partition(".")[2] == text]


def suggest_rules(text: str, names: Iterable[str]) -> str:
    """Return a sentence that suggests rules or cases for a mistyped text, or an empty text if none is near.

    Rules are also compared without their operation, so `at-treshold` suggests `at-threshold` of each operation.
    """
    names = list(dict.fromkeys(names))
    short = {name: name.partition(".")[2] or name for name in names}
    near = get_close_matches(text, names, 3)
    bare = text.partition(".")[2] or text
    of_each = get_close_matches(bare, set(short.values()), 2, cutoff=0.75)
    near += [name for name in names if short[name] in of_each and name not in near]
    return suggest_names(near[:6])


def complete_rule(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return the rules whose ids begin with the typed text, for the completion of a shell."""
    del context, parameter
    return [CompletionItem(rule.id) for rule in rule_book.load() if rule.id.startswith(begun)]


@click.command(short_help="List the rules, their levels and numbers of cases.")
@click.argument("pattern", default="*", metavar="[RULE|OPERATION|GLOB]", shell_complete=complete_rule)
def rules(pattern: str) -> None:
    """List the rules with their levels and the number of their cases; `gradclip show RULE` shows one in full.

    The last line names rules without a case, and cases without a rule.
    """
    counts = Counter(case.rule for case in (*list_all_cases(), *list_all_rows()))
    names = set(find_rules(pattern))
    chosen = [rule for rule in rule_book.load() if rule.id in names]
    if not chosen:
        hint = suggest_rules(pattern, [rule.id for rule in rule_book.load()])
        msg = f"No rule matches {pattern!r}.{hint} `gradclip rules` without a name lists all."
        raise click.UsageError(msg)
    for rule in chosen:
        click.echo(f"{click.style(rule.id, bold=True)}  {rule.level}, {format_count(counts[rule.id], 'case')}")
        click.echo(textwrap.indent(textwrap.fill(rule.statement, 76), "    "))
    lone = [rule.id for rule in chosen if not counts[rule.id]]
    stray = sorted(set(counts) - {rule.id for rule in rule_book.load()})
    total = format_count(sum(counts[rule.id] for rule in chosen), "case")
    click.echo(f"\n{format_count(len(chosen), 'rule')}, {total}.")
    click.echo(f"Without a case: {', '.join(lone) or 'none'}. Cases without a rule: {', '.join(stray) or 'none'}.")
