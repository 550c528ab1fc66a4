"""Propose a file of pins for a record: with it, a run with the same answers is as expected.

A pin stays as it is if it is about another version, platform or device, or if all its cells have the pinned answer. Any
other pin is made anew. The cells that still have its answer keep its reason; those with a new answer, and failures
without a pin, get a pin without a reason.

A record may be forged: its texts become values of TOML or escaped comments, never lines or patterns.
"""

from __future__ import annotations

import datetime
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace

import tomlkit
from tomlkit.items import Array, InlineTable

from gradclip_reports.records import Cell, Run
from gradclip_reports.statuses import UNJUDGED
from gradclip_reports.values import plain_line

from ..cases.patterns import matches
from ..oracle.formula import Formula
from .pins import AGREES, Deviation, load_deviations, pin_faults, pins_file, read_deviations

__all__ = ["CannotPin", "propose_pins"]

UNEXPLAINED = "To be explained: {}"


class CannotPin(ValueError):
    """Raised when no pin can name a cell; the text says why."""


def propose_pins(run: Run, deviations: Sequence[Deviation] | None = None) -> str:
    """Return the text of a file with the pins that still hold, new ones, and comments about faults of pins.

    Parameters
    ----------
    run
        A complete run, of all rules, cases and dtypes.
    deviations
        The pins by which it was judged; those of its adapter by default.

    Raises
    ------
    CannotPin
        When a cell to be pinned has a name that a pin would take for a pattern.
    """
    # A plain function has no version, and a pin must name one.
    adapter, version = run.header.adapter, run.header.framework["version"].partition("+")[0] or "unknown"
    known = load_deviations(adapter) if deviations is None else deviations
    holding = [one for one in known if one.holds(run.header.framework["version"], run.header.environment)]
    wrong = {id(one) for one in holding if _is_wrong(one, holding, run)}
    blocks = _blocks(adapter) if deviations is None else {}
    parts = [blocks.get(None, _comment(f"Known failures of {run.header.framework['name']}."))]
    for one in known:
        if one.expired or id(one) in wrong:
            continue
        text = blocks.get(one) or _pin(one)
        parts.append(_seen_last(text, version) if one in holding else text)
    loose = [one for one in holding if id(one) in wrong]
    parts += map(_pin, _new_pins(run, loose, version))
    parts += [_comment(fault) for fault in pin_faults(run, known)]
    return "\n\n".join(parts) + "\n"


def _comment(text: str) -> str:
    """Return a text as a comment in one line, because after a line break it would be TOML."""
    return f"# {plain_line(text)}"


def _seen_last(text: str, version: str) -> str:
    """Return the text of a pin with a new `last_seen`; comments and order stay."""
    document = tomlkit.parse(text)
    (pin,) = document["deviation"]
    pin["last_seen"] = version
    return tomlkit.dumps(document).rstrip("\n")


def _is_wrong(one: Deviation, holding: Sequence[Deviation], run: Run) -> bool:
    """Return whether a pin must be made anew: a cell has changed, a pattern matches nothing, or two pins overlap."""
    cells = [cell for cell in run.cells if one.speaks_of(cell.case, cell.subject)]
    found = [cell for cell in cells if cell.status == "deviation"]
    return (
        any(cell.status == "changed" for cell in cells)
        or any(other.speaks_of(cell.case, cell.subject) for other in holding if other is not one for cell in cells)
        or not all(any(matches(p, cell.case) for cell in found) for p in one.cases)
        or not all(any(matches(p, cell.subject) for cell in found) for p in one.subjects)
    )


def _blocks(adapter: str) -> Mapping[Deviation | None, str]:
    """Return the text of each pin of a file with the comment above it; under None, the file's first comment."""
    path = pins_file(adapter)
    if path is None or not path.exists():
        return {}
    parts = re.split(r"\n\s*\n", path.read_text(encoding="utf-8").strip())
    pins = [part for part in parts if "[[deviation]]" in part]
    known = load_deviations(adapter)
    texts: dict[Deviation | None, str] = {}
    # A text of several lines may hold blank lines, and split a pin. Then the pins are written anew.
    if len(pins) == len(known) and all(_is_pin(text, one) for text, one in zip(pins, known, strict=True)):
        texts.update(zip(known, pins, strict=True))
    # The file is empty if the shell redirects the output to it; anything but a comment would be a second `deviation`.
    if parts[0] and all(line.lstrip().startswith("#") for line in parts[0].splitlines()):
        texts[None] = parts[0]
    return texts


def _is_pin(text: str, pin: Deviation) -> bool:
    """Return whether a text is this pin and nothing else."""
    try:
        return read_deviations(text, "a pin") == (pin,)
    except ValueError:
        return False


def _new_pins(run: Run, loose: Sequence[Deviation], version: str) -> list[Deviation]:
    """Return pins for failures without a pin, and for known failures whose pins are made anew."""
    groups: dict[tuple[str, Deviation], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for cell in run.cells:
        if (pin := _pin_of(cell, loose, version)) is not None:
            groups[cell.rule, pin][cell.subject].add(cell.case)
    pins: dict[tuple[Deviation, tuple[str, ...]], list[str]] = defaultdict(list)
    for (_, pin), by_subject in groups.items():
        for subject, cases in by_subject.items():
            _refuse_patterns(subject, cases)
            judged = {cell.case for cell in run.cells if cell.subject == subject and cell.status not in UNJUDGED}
            pins[pin, tuple(_patterns(cases, judged - cases))].append(subject)
    return [replace(pin, subjects=tuple(sorted(names)), cases=cases) for (pin, cases), names in pins.items()]


def _refuse_patterns(subject: str, cases: Iterable[str]) -> None:
    """Refuse names that a pin would take for patterns: a subject called `*` would excuse every other."""
    for name in (subject, *cases):
        if "*" in name:
            msg = f"{name!r} cannot be pinned: a `*` in a pin stands for any text."
            raise CannotPin(msg)
    for case in cases:
        if case.count("/") != 2:
            msg = f"{case!r} cannot be pinned: it is not of the form RULE/VARIANT/DTYPE."
            raise CannotPin(msg)


def _pin_of(cell: Cell, loose: Sequence[Deviation], version: str) -> Deviation | None:
    """Return a new pin of a cell, without subjects and cases; None if it needs none."""
    if cell.status == "deviation":
        known = [one for one in loose if one.speaks_of(cell.case, cell.subject)]
        return replace(known[0], subjects=(), cases=(), mode="*", last_seen=version) if known else None
    if cell.status != "fail" and (cell.status != "changed" or AGREES in cell.detail):
        return None
    if not cell.behaviour:
        msg = f"{cell.case!r} of {cell.subject!r} cannot be pinned: the record does not say what came back."
        raise CannotPin(msg)
    today = datetime.datetime.now(datetime.UTC).date()
    reason = UNEXPLAINED.format(f"the answer is {cell.behaviour.partition(':')[0]}.")
    return Deviation((), (), cell.behaviour, reason, f"none found, {today}", version, version)


def _pin(pin: Deviation) -> str:
    """Return the text of a pin."""
    table = tomlkit.table()
    table.add("subjects", _list(pin.subjects))
    table.add("cases", _list(pin.cases))
    for field in fields(Deviation):
        value = getattr(pin, field.name)
        if field.name in ("subjects", "cases") or value == field.default:
            continue
        table.add(field.name, _inline(value) if isinstance(value, Formula) else tomlkit.string(value))
    document = tomlkit.document()
    pins = tomlkit.aot()
    pins.append(table)
    document.add("deviation", pins)
    return tomlkit.dumps(document).strip("\n")


def _inline(formula: Formula) -> InlineTable:
    inline = tomlkit.inline_table()
    inline.update(formula.to_mapping())
    return inline


def _list(values: Iterable[str]) -> Array:
    """Return names as an array, one name in each line."""
    array = tomlkit.array()
    for value in values:
        array.add_line(tomlkit.string(value), indent="  ")
    array.add_line(indent="")
    return array


def _patterns(cases: Collection[str], others: Collection[str]) -> list[str]:
    """Return few patterns of rule, variant and dtype that match these cases and no others, widest first."""
    left, chosen = set(cases), []
    for shape in ("{rule}/*", "{rule}/{variant}/*", "{rule}/*/{dtype}", "{rule}/{variant}/{dtype}"):
        for case in sorted(left):
            rule, variant, dtype = case.split("/")
            pattern = shape.format(rule=rule, variant=variant, dtype=dtype)
            if case in left and not any(matches(pattern, other) for other in others):
                chosen.append(pattern)
                left = {one for one in left if not matches(pattern, one)}
    return chosen
