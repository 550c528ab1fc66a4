"""Pins proposed from a record: what failed and is not pinned, grouped by subject, rule and what was observed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable

from gradclip_reports.records import Run

from .deviations import pin_faults
from .patterns import matches

__all__ = ["proposal"]

#: A pin may match cells of these statuses without making them `changed`.
UNJUDGED = ("unsupported", "unspecified")


def proposal(run: Run) -> str:
    """TOML with a pin for each group of unpinned failures, to be given a reason and a URL; comments on the others."""
    version = run.header.framework["version"].partition("+")[0]
    groups: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for cell in run.cells:
        if cell.status == "fail":
            groups[cell.rule, cell.behaviour][cell.subject].add(cell.case)
    pins: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (_, observed), by_subject in groups.items():
        for subject, cases in by_subject.items():
            judged = {cell.case for cell in run.cells if cell.subject == subject and cell.status not in UNJUDGED}
            pins[observed, tuple(_patterns(cases, judged - cases))].append(subject)
    parts = [_pin(subjects, cases, observed, version) for (observed, cases), subjects in pins.items()]
    changed = [cell for cell in run.cells if cell.status == "changed"]
    parts += [f"# {cell.case} of {cell.subject} has changed. {' '.join(cell.detail.split())}\n" for cell in changed]
    parts += [f"# {fault}\n" for fault in pin_faults(run)]
    return "\n".join(parts)


def _pin(subjects: Iterable[str], cases: Iterable[str], observed: str, version: str) -> str:
    lines = ["[[deviation]]", _list("subjects", sorted(subjects)), _list("cases", cases)]
    lines += [f'observed = "{observed}"', 'reason = ""', 'url = ""']
    return "\n".join([*lines, f'first_seen = "{version}"', f'last_seen = "{version}"\n'])


def _list(name: str, values: Iterable[str]) -> str:
    return f"{name} = [\n" + "".join(f"  {json.dumps(value)},\n" for value in values) + "]"


def _patterns(cases: Collection[str], others: Collection[str]) -> list[str]:
    """The fewest patterns of rule, variant and dtype, tried from the widest, that match these cases and no others."""
    left, chosen = set(cases), []
    for shape in ("{rule}/*", "{rule}/{variant}/*", "{rule}/*/{dtype}", "{rule}/{variant}/{dtype}"):
        for case in sorted(left):
            rule, variant, dtype = case.split("/")
            pattern = shape.format(rule=rule, variant=variant, dtype=dtype)
            if case in left and not any(matches(pattern, other) for other in others):
                chosen.append(pattern)
                left = {one for one in left if not matches(pattern, one)}
    return chosen
