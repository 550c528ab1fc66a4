"""Find the known failures and claims of an adapter that a run contradicts."""

from __future__ import annotations

from collections.abc import Iterable

from gradclip_reports.records import Run
from gradclip_reports.statuses import Status
from gradclip_reports.values import escape_line

from ..cases.patterns import matches, matches_any
from .claims import find_claim_faults, load_claims
from .failures import KnownFailure, load_known
from .files import holds


def find_faults(run: Run, version: str = "") -> list[str]:
    """Return a sentence for each known failure or claim that a run contradicts.

    `version` is the version of the framework that the user named. The files are about the version that the project
    tests, and another version may lack entry points.
    """
    names = [entry_point["name"] for entry_point in run.header.subjects]

    def is_there(pattern: str) -> bool:
        return not version or any(matches(pattern, name) for name in names)

    adapter = run.header.adapter
    claims = (claim for claim in load_claims(adapter) if is_there(claim.subject))
    return [
        *(sentence for pattern, sentence in find_known_faults(run, load_known(adapter)) if is_there(pattern)),
        *find_claim_faults(run, claims),
    ]


def find_known_faults(run: Run, known: Iterable[KnownFailure]) -> list[tuple[str, str]]:
    """Return the patterns of entry points that are out of date, each with a sentence about it.

    This means that no entry point that matches the pattern shows the known failure. The run must be complete, because
    other cells might show it.
    """
    return [
        (
            pattern,
            escape_line(f"The known failure {name}: no entry point that matches {pattern!r} shows it; remove it."),
        )
        for one in known
        for name in [repr(one.cause) if one.cause else f"of {one.rules[0]!r}"]
        for pattern in list_outdated_patterns(run, one)
    ]


def list_outdated_patterns(run: Run, one: KnownFailure) -> list[str]:
    """Return the patterns of entry points whose entry points do not show a known failure in a complete run.

    A run that was asked none of the entry's rules shows nothing about it.
    """
    if one.by_chance or not holds(one, run.header.framework["version"], run.header.environment):
        return []
    if not any(matches_any(one.rules, cell.case, cell.rule) for cell in run.cells):
        return []
    known = {cell.pair for cell in run.cells if cell.status == Status.KNOWN}
    if one.cause:
        known &= {pair for finding in run.singles if finding.cause == one.cause for pair in finding.pairs}
    shown = {entry_point for entry_point, case in known if one.speaks_of(case, entry_point)}
    return [pattern for pattern in one.subjects if not any(matches(pattern, entry_point) for entry_point in shown)]
