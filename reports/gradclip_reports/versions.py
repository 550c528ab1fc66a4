"""Say since when and until when each finding is shown, from the records of several versions of one framework.

A version lacks a finding only if its run was asked one of the finding's cases. Otherwise, the record says nothing about
the finding: records of older versions hold fewer cases. Answers that differ by chance from run to run date nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from .finding_text import FOR_MODELS, MESSAGE, write_heading
from .lines import Finding, Run
from .markup import draw_markdown_table, escape_markdown
from .statuses import UNEXPLAINED, UNJUDGED, Status, rank_severity
from .values import format_count

#: The signs in the table, for a version that shows a finding, one that does not, and one that was not asked.
SIGNS = {True: "●", False: "–", None: " "}
#: At most this many rules are listed for a pair of versions.
RULES = 8
#: Joins several values of one parameter of a finding, such as kinds of errors.
JOINT = " | "
#: Parameters that may differ between two versions that show the same finding.
VARYING = FOR_MODELS | {MESSAGE}


#: Tells whether the answer of a run to a pair of an entry point and a case depends on chance.
Chance = Callable[[Run, tuple[str, str]], bool]


def never(*_: object) -> bool:
    """Return False: no answer depends on chance."""
    return False


@dataclass(frozen=True)
class Trace:
    """One finding in the versions of a framework."""

    #: The finding, as the newest version that has it shows it.
    finding: Finding
    #: For each version, the oldest first: whether it shows the finding, or None if its record does not tell.
    shown: tuple[bool | None, ...]
    #: Whether all its answers depend on chance. Then a version that does not show the finding may do so another time.
    by_chance: bool = False


def sort_versions(runs: Collection[Run]) -> list[Run]:
    """Return the runs by version, the oldest first. Of two runs of one version, the earlier one comes first."""
    return sorted(runs, key=lambda run: (read_numbers(run.header.framework["version"]), run.header.started))


def read_numbers(version: str) -> list[int]:
    """Return the numbers of a version, by which versions are sorted."""
    return [int(number) for number in re.findall(r"[0-9]{1,9}", version)]


def identify(finding: Finding) -> str:
    """Return what makes a finding the same in two versions: its cause and its parameters that do not vary."""
    return json.dumps([finding.cause, _keep_parameters(finding)], sort_keys=True)


def _keep_parameters(finding: Finding) -> dict[str, Any]:
    """Return the parameters that do not vary. Answers without a cause share one row, whatever their rules."""
    if finding.cause == UNEXPLAINED:
        return {}
    return {name: value for name, value in finding.parameters.items() if name not in VARYING}


def name_finding(finding: Finding) -> str:
    """Return the heading of a finding without what may vary between versions."""
    return write_heading(replace(finding, parameters=_keep_parameters(finding)))


def split_errors(finding: Finding, raised: Mapping[tuple[str, str], str] = MappingProxyType({})) -> list[Finding]:
    """Return a finding for each kind of error that a finding names. `raised` has the kind of each pair.

    Versions join different kinds, which would look like different findings.
    """
    kinds = str(finding.parameters.get("error", "")).split(JOINT)
    if len(kinds) == 1:
        return [finding]
    return [
        replace(
            finding,
            parameters={**finding.parameters, "error": kind},
            cells={
                entry_point: [case for case in cases if raised.get((entry_point, case), kind) == kind]
                for entry_point, cases in finding.cells.items()
            },
        )
        for kind in kinds
    ]


def trace_findings(runs: Sequence[Run], is_by_chance: Chance = never) -> list[Trace]:
    """Return the findings of runs that `sort_versions` has sorted, the severest first. Parts count as findings."""
    newest: dict[str, Finding] = {}
    # The cases of each finding whose answers do not depend on chance.
    cases: dict[str, set[str]] = {}
    shown: list[set[str]] = []
    for run in runs:
        keys = set()
        raised = {cell.pair: cell.behaviour.removeprefix("raises:") for cell in run.cells}
        for single in (part for joint in run.singles for part in split_errors(joint, raised)):
            key = identify(single)
            keys.add(key)
            newest[key] = single
            certain = {pair[1] for pair in single.pairs if not is_by_chance(run, pair)}
            cases.setdefault(key, set()).update(certain)
        shown.append(keys)
    asked = [{cell.case for cell in run.cells if cell.status not in UNJUDGED} for run in runs]
    traces = [
        Trace(
            finding,
            tuple(
                True if key in keys else (False if cases[key] & judged else None)
                for keys, judged in zip(shown, asked, strict=True)
            ),
            by_chance=not cases[key],
        )
        for key, finding in newest.items()
    ]
    return sorted(traces, key=lambda trace: (rank_severity(trace.finding.severity), name_finding(trace.finding)))


def describe_trace(trace: Trace, versions: Sequence[str]) -> str:
    """Return in which versions a finding is shown, or "by chance"."""
    return "by chance" if trace.by_chance else describe_span(trace.shown, versions)


def describe_span(shown: Sequence[bool | None], versions: Sequence[str]) -> str:
    """Return in which versions a finding is shown: "since 2.0", "until 1.5", or both."""
    told = [(one, version) for one, version in zip(shown, versions, strict=True) if one is not None]
    with_it = [version for one, version in told if one]
    if len(with_it) == len(told):
        return "in all" if len(told) > 1 else f"in {with_it[0]}"
    first, last = (told.index((True, version)) for version in (with_it[0], with_it[-1]))
    since = f"since {with_it[0]} (not in {told[first - 1][1]})" if first else ""
    until = f"until {with_it[-1]} (not in {told[last + 1][1]})" if last + 1 < len(told) else ""
    between = [version for one, version in told[first:last] if not one]
    gap = f"not in {', '.join(between)}" if between else ""
    return ", ".join(filter(None, (since, until, gap)))


def count_changes(old: Run, new: Run) -> Counter[str]:
    """Return the number of answers of another kind in the newer run, by rule. Only calls that both answered count."""
    before = {cell.pair: cell for cell in old.cells if cell.status != Status.UNSUPPORTED}
    return Counter(
        cell.rule
        for cell in new.cells
        if cell.status != Status.UNSUPPORTED and cell.pair in before and cell.behaviour != before[cell.pair].behaviour
    )


def draw_versions(runs: Sequence[Run], is_by_chance: Chance = never) -> str:
    """Return the table of one framework's findings by version, in Markdown, and the changes from version to version."""
    ordered = sort_versions(runs)
    versions = [run.header.framework["version"] for run in ordered]
    rows = [["finding", "severity", *map(escape_markdown, versions), "shown"]]
    for trace in trace_findings(ordered, is_by_chance):
        told = [escape_markdown(name_finding(trace.finding)), escape_markdown(trace.finding.severity)]
        rows.append([*told, *(SIGNS[one] for one in trace.shown), escape_markdown(describe_trace(trace, versions))])
    lines = [_describe_changes(old, new) for old, new in pairwise(ordered)]
    return "\n\n".join([draw_markdown_table(rows), "\n".join(f"- {line}" for line in lines)])


def _describe_changes(old: Run, new: Run) -> str:
    versions = " to ".join(escape_markdown(run.header.framework["version"]) for run in (old, new))
    counts = count_changes(old, new)
    told = [f"`{rule}` ({format_count(number, 'answer')})" for rule, number in counts.most_common(RULES)]
    told += [f"{len(counts) - RULES} rules more"] if len(counts) > RULES else []
    return f"{versions}: {', '.join(told) or 'no answer of another kind'}"
