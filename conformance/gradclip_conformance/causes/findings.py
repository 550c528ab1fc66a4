"""Group the cells of a run by their causes: what a framework does, instead of thousands of cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from gradclip_reports.records import Cell, Finding
from gradclip_reports.statuses import SEVERITIES, SPOILING, STATUSES, UNJUDGED, Status
from gradclip_spec.rules.causes import Cause, load_causes

from ..oracle.formats import FORMATS
from .model import Evidence, Explanation

__all__ = ["UNEXPLAINED", "asked_rules", "find_findings"]

#: The cause of cells that no model reproduces.
UNEXPLAINED = "unexplained"

#: Parameters that differ from cell to cell of one finding; its example shows them.
VARYING = frozenset({"text", "effect"})


def asked_rules(cells: Iterable[Cell]) -> set[tuple[str, str]]:
    """Return the subjects with the rules that were asked, without their operation."""
    return {(cell.subject, cell.rule.partition(".")[2]) for cell in cells if cell.status not in UNJUDGED}


def find_findings(evidence: Sequence[Evidence], explanations: Sequence[Explanation | None]) -> list[Finding]:
    """Return the findings that explain these cells, worst first: those that spoil the run, then the most severe."""
    groups: dict[tuple[Any, ...], list[tuple[Evidence, Explanation | None]]] = {}
    for one, found in zip(evidence, explanations, strict=True):
        groups.setdefault(_key(one.cell, found), []).append((one, found))
    findings = [_finding(key, group) for key, group in groups.items()]
    return sorted(findings, key=lambda one: (not one.spoils, SEVERITIES.index(one.severity), -one.count))


def _key(cell: Cell, found: Explanation | None) -> tuple[Any, ...]:
    if found is None:
        return UNEXPLAINED, (("rule", cell.rule),)
    return found.cause, tuple((name, value) for name, value in found.parameters if name not in VARYING)


def _finding(key: tuple[Any, ...], group: Sequence[tuple[Evidence, Explanation | None]]) -> Finding:
    cause, parameters = _cause(key[0]), dict(key[1])
    cells: dict[str, list[str]] = {}
    for one, _ in group:
        cells.setdefault(one.cell.subject, []).append(one.cell.case)
    example = min((one for one, _ in group), key=_simplicity).cell
    every = [one.cell for one, _ in group]
    documented = next((cell for cell in every if cell.quote), None)
    known = next((cell for cell in every if cell.status == Status.DEVIATION), None)
    return Finding(
        cause=cause.id,
        title=cause.title.format(**parameters),
        question=cause.question,
        severity=min(((found and found.severity) or cause.severity for _, found in group), key=SEVERITIES.index),
        why=cause.why,
        parameters=parameters,
        cells=cells,
        rules=dict(Counter(cell.rule for cell in every)),
        statuses=_in_order(Counter(cell.status for cell in every)),
        example={
            "subject": example.subject,
            "case": example.case,
            "detail": example.detail,
            "input": example.input,
            "expected": example.expected,
            "observed": example.observed,
        },
        quote=documented.quote if documented else None,
        reason=known.detail.partition("Known: ")[2] or None if known else None,
        url=(documented or known or example).url,
    )


def _in_order(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in STATUSES if counts[name]}


def _cause(name: str) -> Cause:
    if name == UNEXPLAINED:
        title = "answers that no known cause explains"
        return Cause(UNEXPLAINED, title, "What comes back?", "wrong", "Nobody has looked into it yet.", ())
    return load_causes()[name]


def _simplicity(one: Evidence) -> tuple[Any, ...]:
    """Return a key by which the easiest cell comes first: not as expected, in float32, of few short numbers."""
    case, cell = one.judged.context.case, one.cell
    arrays = [gradient.array for gradient in case.gradients if gradient.array is not None]
    size = sum(len(array.data) * 8 // FORMATS[array.dtype].width for array in arrays)
    plain = case.expectation.name in ("values", "untouched", "refused", "returned-norm", "not-silent")
    return cell.status not in SPOILING, cell.dtype != "float32", not plain, size, len(str(cell.input))
