"""Describe a finding in lines of plain text, for all reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .layout import shorten_line
from .lines import Cell, Finding, Run
from .statuses import Status
from .values import escape_line, format_count, format_value, group_by, is_hex_float, shorten_text

#: Longer values are cut. The record holds them in full.
LENGTH = 300

#: Parameters that only the model of a cause needs. Headings leave them out, because the example shows them better.
FOR_MODELS = frozenset({"effect"})

#: The parameter that holds the text of an error or a warning. It is a fact of its own, and no part of a heading.
MESSAGE = "text"

#: The greatest length of a heading.
HEADING = 80

#: The largest number of hexadecimal floats that are shown after a value.
HEX = 3

#: The largest number of phrases that are shown of one finding.
QUOTES = 4


def write_heading(finding: Finding) -> str:
    """Return what the framework does, in at most 80 characters, with the parameters for which there is room."""
    title = escape_line(finding.title)
    heading, shown = title, list[str]()
    for name, value in finding.parameters.items():
        if name in FOR_MODELS or name == MESSAGE:
            continue
        shown.append(f"{escape_line(str(name))} = {_format_number(value)}")
        longer = f"{title} ({', '.join(shown)})"
        if len(longer) > HEADING:
            break
        heading = longer
    return shorten_line(heading, HEADING)


def _format_number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else escape_line(str(value))


def describe_standing(finding: Finding) -> str:
    """Return "new" if a finding fails the run. Otherwise return a word for why it does not, such as "known"."""
    if finding.spoils:
        return "new"
    if Status.KNOWN in finding.statuses:
        return "known"
    if Status.DOCUMENTED in finding.statuses:
        # "declared": only the adapter or the option `--formula` says it, so there is no documentation to quote.
        return "documented" if finding.quote else "declared"
    return "poor"


def write_short_line(finding: Finding, counts: int = 2) -> str:
    """Return the finding in one line. `counts` selects its counts: cells and rules (2), only cells (1), or none (0)."""
    told = [format_count(finding.count, "cell"), format_count(len(finding.rules), "rule")][:counts]
    standing = "; ".join([describe_standing(finding), *([", ".join(told)] if told else [])])
    return f"{escape_line(finding.severity)}: {write_heading(finding)} ({standing})"


def list_lines(finding: Finding, run: Run) -> list[tuple[str, str]]:
    """Return the facts of a finding, each with its name."""
    example = finding.example
    facts = [("why", escape_line(finding.why)), ("who", _name_entry_points(finding, run))]
    if message := str(finding.parameters.get(MESSAGE, "")):
        facts.append(("message", shorten_text(escape_line(message), LENGTH)))
    facts.append(("rules", _name_rules(finding.rules)))
    facts += [("part", _write_part(part, finding)) for part in finding.parts]
    facts.append(("case", escape_line(f"{example['case']} of {example['subject']}")))
    shown = [(name, example.get(name)) for name in ("input", "expected", "observed")]
    facts += [(name, _format_value(value)) for name, value in shown if value is not None]
    facts.append(("detail", shorten_text(escape_line(example["detail"]), LENGTH)))
    quotes = list_quotes(finding, run.cells)
    for text, place in quotes:
        where = f" ({shorten_text(escape_line(place), LENGTH)})" if len(quotes) > 1 else ""
        facts.append(("documented", f'"{shorten_text(escape_line(text), LENGTH)}"{where}'))
    facts += [("known", shorten_text(escape_line(finding.reason), LENGTH))] if finding.reason else []
    facts += [("see", shorten_text(escape_line(finding.url), LENGTH))] if finding.url and len(quotes) < 2 else []
    return facts


def list_quotes(finding: Finding, cells: Iterable[Cell]) -> list[tuple[str, str]]:
    """Return the phrases of documentation that account for a finding, each with its place.

    A record names one phrase for each finding. The cells of other entry points may name phrases of their own.
    """
    if not finding.quote:
        return []
    named = set(finding.pairs)
    told = {(finding.quote, finding.url or ""): None}
    told |= {(cell.quote, cell.url or ""): None for cell in cells if cell.quote and cell.pair in named}
    return list(told)[:QUOTES]


def _write_part(part: Finding, whole: Finding) -> str:
    """Return one part of a finding. Leave out what it has in common with the whole, and add why it is known."""
    text, heading, shared = write_short_line(part), write_heading(part), f"{escape_line(whole.title)} ("
    if heading.startswith(shared):
        text = text.replace(heading, heading.removeprefix(shared).removesuffix(")"), 1)
    return f"{text}. {shorten_text(escape_line(part.reason), LENGTH)}" if part.reason else text


def _format_value(value: Any) -> str:
    """Return a value in decimals, followed by its first numbers in hexadecimal."""
    found = list(dict.fromkeys(_list_hex_floats(value)))
    shown = ", ".join(found[:HEX]) + (", ..." if found[HEX:] else "")
    text = shorten_text(format_value(value), LENGTH)
    return f"{text}  ({shown})" if shown else text


def _list_hex_floats(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if is_hex_float(value) and _needs_digits(float.fromhex(value)) else []
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, Sequence):
        return [one for item in value for one in _list_hex_floats(item)]
    return []


def _needs_digits(number: float) -> bool:
    """Return whether a number needs more than three decimals, or is not finite."""
    return not math.isfinite(number) or number != round(number, 3)


def _name_entry_points(finding: Finding, run: Run) -> str:
    alike = group_by(lambda name: tuple(sorted(finding.cells[name])), finding.cells)
    told = [
        escape_line(group[0]) if len(group) == 1 else f"{escape_line(group[0])} and {len(group) - 1} with equal answers"
        for group in alike.values()
    ]
    if len(told) > 3:
        told = [*told[:2], f"{len(told) - 2} more"]
    total = len(run.header.subjects)
    return f"{len(finding.cells)} of {format_count(total, 'entry point')}: " + "; ".join(told)


def _name_rules(rules: Mapping[str, int]) -> str:
    most = sorted(rules.items(), key=lambda pair: -pair[1])
    shown = [f"{escape_line(rule)} ({count})" for rule, count in most[:3]]
    return ", ".join(shown + ([f"{len(most) - 3} more"] if len(most) > 3 else []))
