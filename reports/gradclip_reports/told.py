"""Describe a finding in lines of plain text, for all reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .lines import Finding, Run
from .statuses import Status
from .values import cells, counted, is_hex_float, plain_line, readable, shortened

__all__ = ["finding_of", "heading", "lines_of", "short_line", "standing"]

#: Longer values are cut; the record holds them in full.
LENGTH = 300

#: Parameters that serve to pin a cause, and that its example shows better.
FOR_MODELS = frozenset({"effect"})

#: As many hexadecimal numbers stand beside the decimals.
HEX = 3


def heading(finding: Finding) -> str:
    """Return a description of what the framework does, with its parameters."""
    title = plain_line(finding.title)
    told = {name: value for name, value in finding.parameters.items() if name not in FOR_MODELS}
    shown = ", ".join(f"{plain_line(str(name))} = {_number(value)}" for name, value in told.items())
    return f"{title} ({shown})" if shown else title


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else plain_line(str(value))


def standing(finding: Finding) -> str:
    """Return whether a finding is documented, known or new."""
    if finding.spoils:
        return "new"
    if Status.DEVIATION in finding.statuses:
        return "known"
    if {Status.DOCUMENTED, Status.DECLARED} & finding.statuses.keys():
        return "documented" if Status.DOCUMENTED in finding.statuses else "declared"
    return "poor"


def short_line(finding: Finding) -> str:
    """Return the finding in one line."""
    counts = f"{cells(finding.count)}, {counted(len(finding.rules), 'rule')}"
    return f"{plain_line(finding.severity)}: {heading(finding)} ({standing(finding)}; {counts})"


def lines_of(finding: Finding, run: Run) -> list[tuple[str, str]]:
    """Return the facts of a finding, each with its name."""
    example = finding.example
    facts = [("why", plain_line(finding.why)), ("who", _subjects(finding, run))]
    facts.append(("rules", _rules(finding.rules)))
    facts.append(("case", plain_line(f"{example['case']} of {example['subject']}")))
    shown = [(name, example.get(name)) for name in ("input", "expected", "observed")]
    facts += [(name, _value(value)) for name, value in shown if value is not None]
    facts.append(("detail", shortened(plain_line(example["detail"]), LENGTH)))
    facts += [("documented", f'"{shortened(plain_line(finding.quote), LENGTH)}"')] if finding.quote else []
    facts += [("known", shortened(plain_line(finding.reason), LENGTH))] if finding.reason else []
    facts += [("see", shortened(plain_line(finding.url), LENGTH))] if finding.url else []
    return facts


def _value(value: Any) -> str:
    """Return a value in decimals, followed by its first numbers in hexadecimal."""
    found = list(dict.fromkeys(_hex_floats(value)))
    shown = ", ".join(found[:HEX]) + (", ..." if found[HEX:] else "")
    text = shortened(readable(value), LENGTH)
    return f"{text}  ({shown})" if shown else text


def _hex_floats(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if is_hex_float(value) and _needs_digits(float.fromhex(value)) else []
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, Sequence):
        return [one for item in value for one in _hex_floats(item)]
    return []


def _needs_digits(number: float) -> bool:
    """Return whether three decimals do not show a number."""
    return not math.isfinite(number) or number != round(number, 3)


def _subjects(finding: Finding, run: Run) -> str:
    """Name the subjects; group those with equal answers."""
    names = list(finding.cells)
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        alike.setdefault(tuple(sorted(finding.cells[name])), []).append(name)
    told = [
        plain_line(group[0]) if len(group) == 1 else f"{plain_line(group[0])} and {len(group) - 1} with equal answers"
        for group in alike.values()
    ]
    if len(told) > 3:
        told = [*told[:2], f"{len(told) - 2} more"]
    total = len(run.header.subjects)
    return f"{len(names)} of {counted(total, 'entry point')}: " + "; ".join(told)


def _rules(rules: Mapping[str, int]) -> str:
    most = sorted(rules.items(), key=lambda pair: -pair[1])
    shown = [f"{plain_line(rule)} ({count})" for rule, count in most[:3]]
    return ", ".join(shown + ([f"{len(most) - 3} more"] if len(most) > 3 else []))


def finding_of(run: Run, subject: str, case: str) -> Finding | None:
    """Return the finding that explains a cell."""
    return next((one for one in run.findings if case in one.cells.get(subject, ())), None)
