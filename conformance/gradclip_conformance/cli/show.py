"""Define the verb `gradclip show`: show a rule or a case in full."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import click

from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.layout import find_width, wrap_text
from gradclip_reports.values import format_count, format_value
from gradclip_spec import rules as rule_book

from ..cases.catalogue import list_all_cases
from ..cases.model import Case
from ..cases.patterns import suggest_names
from ..cases.readable import show_input
from ..judge.judging import choose_expectation
from ..run.plan import find_case
from ..sampler.rows import list_all_rows
from .rules import complete_rule, find_rules, suggest_rules


@click.command(short_help="Show a rule or a case in full.")
@click.argument("name", metavar="RULE|CASE", shell_complete=complete_rule)
def show(name: str) -> None:
    """Show a rule with its source and its cases, or a case with its input and the exact results that it expects."""
    case = find_case(name)
    if case is not None:
        click.echo(_write_case(case.make()))
        return
    # A pattern is refused, because this verb shows one rule.
    named = [rule for rule in rule_book.load() if rule.id in find_rules(name) and "*" not in name]
    if len(named) == 1:
        click.echo(_write_rule(named[0]))
        return
    raise click.UsageError(_describe_unknown(name, [rule.id for rule in named]))


def _describe_unknown(name: str, named: Sequence[str]) -> str:
    """Return the message for a name that is not one rule or one case."""
    if len(named) > len(OPERATIONS):
        return f"{name!r} is an operation: `gradclip rules {name}` lists its {len(named)} rules."
    if named:
        return f"{name!r} is a rule of several operations. Name one: {', '.join(named)}."
    near = [
        case.id for case in (*list_all_cases(), *list_all_rows()) if case.rule == name.partition("/")[0] and "/" in name
    ]
    if near := get_close_matches(name, near, 3, cutoff=0.0):
        return f"There is no rule or case {name!r}.{suggest_names(near)}"
    hint = suggest_rules(name, [rule.id for rule in rule_book.load()]) or " `gradclip rules GLOB` lists the rules."
    return f"There is no rule or case {name!r}.{hint}"


def _write_rule(rule: rule_book.Rule) -> str:
    cases = [case.id for case in (*list_all_cases(), *list_all_rows()) if case.rule == rule.id]
    lines = [f"{_emphasize(rule.id)}  ({rule.level})", "", _wrap(rule.statement)]
    if rule.formula:
        lines += ["", f"In LaTeX: {rule.formula}"]
    lines += ["", *_write_sources(rule)]
    return "\n".join([*lines, "", _emphasize(f"{format_count(len(cases), 'case')}:"), *(f"  {case}" for case in cases)])


def _write_sources(rule: rule_book.Rule) -> list[str]:
    if not rule.source:
        return [f"{_emphasize('Source:')} none; the documents are silent here."]
    lines = [f"{_emphasize('Source')} (SPEC.md lists the documents):"]
    for source in rule.source:
        gloss = f" ({source.gloss})" if source.gloss else ""
        quotation = f'  {source.document}, {source.where}: "{source.phrase}"{gloss}'
        lines.append(_wrap(quotation, subsequent_indent="    "))
    return lines


def _emphasize(text: str) -> str:
    return click.style(text, bold=True)


def _wrap(text: str, subsequent_indent: str = "") -> str:
    """Return the text, broken into lines that fit the terminal."""
    return "\n".join(wrap_text(text, find_width(), rest=subsequent_indent, break_words=False))


def _write_case(case: Case) -> str:
    """Return the case in readable form, and below it the exact values."""
    rule = next(rule for rule in rule_book.load() if rule.id == case.rule)
    call = {"operation": case.operation, **show_input(case)}
    expected = choose_expectation(case).describe(case)
    readable = [_wrap(part if isinstance(part, str) else format_value(part)) for part in expected]
    exact = [_write_exactly(part) for part in expected if not isinstance(part, str)]
    lines = [_emphasize(case.id), "", _wrap(f"{rule.statement} ({rule.level})")]
    lines += ["", _emphasize("Call:"), _wrap(format_value(call)), "", _emphasize("Expected:"), *readable]
    lines += ["", *_write_sources(rule)]
    lines += ["", _emphasize("The call exactly:"), _write_exactly(call)]
    lines += ["", _emphasize("Expected exactly:"), *exact] if exact else []
    return "\n".join(lines)


def _write_exactly(value: Any, indent: int = 0) -> str:
    """Return a value as JSON, in one line if it fits the terminal behind its indent."""
    line = json.dumps(value)
    if indent + len(line) <= find_width() or not isinstance(value, list | dict) or not value:
        return line
    if isinstance(value, list):
        parts = [_write_exactly(one, indent + 2) for one in value]
    else:
        # The value follows the name. If it does not fit there, it takes several lines.
        parts = [f"{json.dumps(name)}: {_write_exactly(one, indent + len(name) + 6)}" for name, one in value.items()]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    inside = textwrap.indent(",\n".join(parts), "  ")
    return f"{opening}\n{inside}\n{closing}"
