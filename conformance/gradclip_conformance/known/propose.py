"""The file of pins that a record asks for: it loads, and makes a run that answers as the record does as expected.

Pins that are about another version, platform or device stay as they are, and so do those of which every cell answers
as pinned; of the others, what is still so keeps its reason, and what has changed or is not pinned yet gets a pin to be
explained.
"""

from __future__ import annotations

import datetime
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace

from gradclip_reports.records import Cell, Run
from gradclip_reports.statuses import UNJUDGED

from ..cases.patterns import matches
from ..oracle.formula import Formula
from .pins import AGREES, Deviation, load_deviations, pin_faults, pins_file

__all__ = ["proposal"]

UNEXPLAINED = "To be explained: {}"


def proposal(run: Run, deviations: Sequence[Deviation] | None = None) -> str:
    """The text of the file of an adapter's pins: those that stand, those that are new, and what was wrong as comments.

    Parameters
    ----------
    run
        Of all rules, cases and dtypes.
    deviations
        The pins by which it was judged: those of its adapter unless given.
    """
    # A plain function has no version, and a pin must name one.
    adapter, version = run.header.adapter, run.header.framework["version"].partition("+")[0] or "unknown"
    known = load_deviations(adapter) if deviations is None else deviations
    holding = [one for one in known if one.holds(run.header.framework["version"], run.header.environment)]
    wrong = {id(one) for one in holding if _is_wrong(one, holding, run)}
    blocks = _blocks(adapter) if deviations is None else {}
    parts = [blocks.get(None, f"# Known failures of {run.header.framework['name']}.")]
    for one in known:
        if one.expired or id(one) in wrong:
            continue
        text = blocks.get(one) or _pin(one)
        parts.append(re.sub('last_seen = ".*"', f'last_seen = "{version}"', text) if one in holding else text)
    loose = [one for one in holding if id(one) in wrong]
    parts += map(_pin, _new_pins(run, loose, version))
    parts += [f"# {fault}" for fault in pin_faults(run, known)]
    return "\n\n".join(parts) + "\n"


def _is_wrong(one: Deviation, holding: Sequence[Deviation], run: Run) -> bool:
    """Whether a pin must be made anew: a cell has changed, a pattern finds nothing, or two pins meet."""
    cells = [cell for cell in run.cells if one.speaks_of(cell.case, cell.subject)]
    found = [cell for cell in cells if cell.status == "deviation"]
    return (
        any(cell.status == "changed" for cell in cells)
        or any(other.speaks_of(cell.case, cell.subject) for other in holding if other is not one for cell in cells)
        or not all(any(matches(p, cell.case) for cell in found) for p in one.cases)
        or not all(any(matches(p, cell.subject) for cell in found) for p in one.subjects)
    )


def _blocks(adapter: str) -> Mapping[Deviation | None, str]:
    """The text of each pin of a file with the comment above it, and of the file's first comment."""
    path = pins_file(adapter)
    if not path.exists():
        return {}
    parts = re.split(r"\n\s*\n", path.read_text(encoding="utf-8").strip())
    pins = [part for part in parts if "[[deviation]]" in part]
    known = load_deviations(adapter)
    texts: dict[Deviation | None, str] = {}
    if len(pins) == len(known):
        texts.update(zip(known, pins, strict=True))
    # A shell that prints to the file has emptied it.
    if parts[0] and "[[deviation]]" not in parts[0]:
        texts[None] = parts[0]
    return texts


def _new_pins(run: Run, loose: Sequence[Deviation], version: str) -> list[Deviation]:
    """Pins for what failed and is not pinned, and for what pins that do not stay had rightly pinned."""
    groups: dict[tuple[str, Deviation], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for cell in run.cells:
        if (pin := _pin_of(cell, loose, version)) is not None:
            groups[cell.rule, pin][cell.subject].add(cell.case)
    pins: dict[tuple[Deviation, tuple[str, ...]], list[str]] = defaultdict(list)
    for (_, pin), by_subject in groups.items():
        for subject, cases in by_subject.items():
            judged = {cell.case for cell in run.cells if cell.subject == subject and cell.status not in UNJUDGED}
            pins[pin, tuple(_patterns(cases, judged - cases))].append(subject)
    return [replace(pin, subjects=tuple(sorted(names)), cases=cases) for (pin, cases), names in pins.items()]


def _pin_of(cell: Cell, loose: Sequence[Deviation], version: str) -> Deviation | None:
    """The pin of a cell, without subjects and cases; None where it needs no new one."""
    if cell.status == "deviation":
        known = [one for one in loose if one.speaks_of(cell.case, cell.subject)]
        return replace(known[0], subjects=(), cases=(), mode="*", last_seen=version) if known else None
    if cell.status != "fail" and (cell.status != "changed" or AGREES in cell.detail):
        return None
    today = datetime.datetime.now(datetime.UTC).date()
    reason = UNEXPLAINED.format(f"what came back is {cell.behaviour.partition(':')[0]}.")
    return Deviation((), (), cell.behaviour, reason, f"none found, {today}", version, version)


def _pin(pin: Deviation) -> str:
    lines = ["[[deviation]]", _list("subjects", pin.subjects), _list("cases", pin.cases)]
    for field in fields(Deviation):
        value = getattr(pin, field.name)
        if field.name in ("subjects", "cases") or value == field.default:
            continue
        if isinstance(value, Formula):
            shown = "{{ {} }}".format(
                ", ".join(f"{key} = {json.dumps(one)}" for key, one in value.to_mapping().items())
            )
        else:
            shown = json.dumps(value, ensure_ascii=False)
        lines.append(f"{field.name} = {shown}")
    return "\n".join(lines)


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
