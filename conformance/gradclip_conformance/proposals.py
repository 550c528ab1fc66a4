"""Pins proposed from a record: what failed and is not pinned, grouped by subject, rule and what was observed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from gradclip_adapters.contract import DTYPES, Array, Reply
from gradclip_reports.records import Cell, Run

from .answers import Answer, Raised, Replied
from .behaviour import behaviour_of
from .case import Case
from .cases import all_cases
from .deviations import pin_faults
from .formats import FORMATS, encode
from .patterns import matches

__all__ = ["behaviour_in", "proposal"]

#: A pin may match cells of these statuses without making them `changed`.
UNJUDGED = ("unsupported", "unspecified")


def proposal(run: Run) -> str:
    """TOML with a pin for each group of unpinned failures, to be given a reason and a URL; comments on the others."""
    version = run.header.framework["version"]
    groups: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for cell in run.cells:
        if cell.status == "fail":
            groups[cell.rule, behaviour_in(cell)][cell.subject].add(cell.case)
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


def behaviour_in(cell: Cell) -> str:
    """The word of `behaviour` for a cell of a record; "unknown" where the record does not show the answer."""
    case = next((case for case in all_cases() if case.id == cell.case), None)
    shown = cell.observed
    if case is None or not isinstance(shown, Mapping):
        return "unknown"
    if "raised" in shown:
        return behaviour_of(case, Raised(shown["raised"], shown["text"]))
    gradients = shown.get("gradients", ())
    norm = shown.get("norm")
    if any(one is not None and one["dtype"] not in DTYPES for one in (*gradients, norm)):
        return "unknown"
    answer: Answer = Replied(Reply(tuple(map(_array, gradients)), _array(norm)))
    return behaviour_of(_as_shown(case, gradients), answer)


def _array(shown: Mapping[str, Any] | None) -> Array | None:
    if shown is None:
        return None
    values = [float.fromhex(value) for value in shown["values"]]
    shape = (len(values),) if "elements" in shown else tuple(shown["shape"])
    return Array(shown["dtype"], shape, encode(values, shown["dtype"]))


def _as_shown(case: Case, shown: Iterable[Mapping[str, Any] | None]) -> Case:
    """The case with each gradient cut to as many elements as the record shows of its result."""
    gradients = list(case.gradients)
    for i, one in enumerate(shown):
        array = gradients[i].array
        if one is not None and "elements" in one and array is not None:
            count, width = len(one["values"]), FORMATS[array.dtype].width // 8
            gradients[i] = replace(gradients[i], array=Array(array.dtype, (count,), array.data[: count * width]))
    return replace(case, gradients=tuple(gradients))
