"""Define the verb `gradclip show`: show a rule or a case in full."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import click

from gradclip_reports.values import counted, readable
from gradclip_spec import rules as rule_book

from ..cases.build import OPERATIONS
from ..cases.catalogue import all_cases
from ..cases.model import Case
from ..cases.patterns import suggest
from ..cases.readable import readable_input
from ..cases.regressions import is_find
from ..covering.rows import all_rows, find_row
from ..judge.judging import expectation_of
from .rules import find_rules, suggest_rules

__all__ = ["show"]


@click.command(short_help="Show a rule or a case in full.")
@click.argument("name", metavar="RULE|CASE")
def show(name: str) -> None:
    """Show a rule with its source and its cases, or a case with its input and the exact results that it expects."""
    for case in all_cases():
        if case.id == name:
            click.echo(_case_text(case))
            return
    if (row := find_row(name)) is not None:
        click.echo(_case_text(row.made()))
        return
    # A pattern is refused, because this verb shows one rule.
    named = [rule for rule in rule_book.load() if rule.id in find_rules(name) and "*" not in name]
    if len(named) == 1:
        click.echo(_rule_text(named[0]))
        return
    raise click.UsageError(_unknown_text(name, [rule.id for rule in named]))


def _unknown_text(name: str, named: Sequence[str]) -> str:
    """Return the message for a name that is not one rule or one case."""
    if is_find(name):
        return f"--deep found {name!r}: its input is in the record, and `gradclip repro FILE CASE` shows it."
    if len(named) > len(OPERATIONS):
        return f"{name!r} is an operation: `gradclip rules {name}` lists its {len(named)} rules."
    if named:
        return f"{name!r} is a rule of several operations. Name one: {', '.join(named)}."
    near = [case.id for case in (*all_cases(), *all_rows()) if case.rule == name.partition("/")[0] and "/" in name]
    if near := get_close_matches(name, near, 3, cutoff=0.0):
        return f"There is no rule or case {name!r}.{suggest(near)}"
    hint = suggest_rules(name, [rule.id for rule in rule_book.load()]) or " `gradclip rules GLOB` lists the rules."
    return f"There is no rule or case {name!r}.{hint}"


def _rule_text(rule: rule_book.Rule) -> str:
    cases = [case.id for case in (*all_cases(), *all_rows()) if case.rule == rule.id]
    lines = [f"{rule.id}  ({rule.level})", "", _wrapped(rule.statement)]
    if rule.formula:
        lines += ["", f"In LaTeX: {rule.formula}"]
    lines += ["", *_sources_text(rule)]
    return "\n".join([*lines, "", f"{counted(len(cases), 'case')}:", *(f"  {case}" for case in cases)])


def _sources_text(rule: rule_book.Rule) -> list[str]:
    lines = ["Source (SPEC.md lists the documents):" if rule.source else "Source: none; the documents are silent here."]
    for source in rule.source:
        gloss = f" ({source.gloss})" if source.gloss else ""
        quotation = f'  {source.document}, {source.where}: "{source.phrase}"{gloss}'
        lines.append(_wrapped(quotation, subsequent_indent="    "))
    return lines


def _wrapped(text: str, subsequent_indent: str = "") -> str:
    """Return the text, broken into lines that fit the terminal."""
    width = max(60, shutil.get_terminal_size((80, 24)).columns)
    return textwrap.fill(
        text, width, subsequent_indent=subsequent_indent, break_long_words=False, break_on_hyphens=False
    )


def _values_text(value: Any) -> str:
    """Return values in a readable form, and below them the exact values."""
    return f"{_wrapped(readable(value))}\n\nThe same exactly:\n{json.dumps(value, indent=2)}"


def _case_text(case: Case) -> str:
    rule = next(rule for rule in rule_book.load() if rule.id == case.rule)
    lines = [case.id, "", _wrapped(f"{rule.statement} ({rule.level})"), "", *_sources_text(rule)]
    return "\n".join([*lines, "", "Call:", _call_text(case), "", "Expected:", _expected_text(case)])


def _call_text(case: Case) -> str:
    return _values_text({"operation": case.operation, **readable_input(case)})


def _expected_text(case: Case) -> str:
    """Return the description of what is expected."""
    parts = expectation_of(case).describe(case)
    return "\n".join(_wrapped(part) if isinstance(part, str) else _values_text(part) for part in parts)
