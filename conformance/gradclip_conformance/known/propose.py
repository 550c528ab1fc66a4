"""Propose a file of pins for a record. With this file, a run with the same answers has no failures.

A pin does not change if it is about another version, platform or device, or if all its cells have the pinned answer.
Any other pin is replaced. The cells that still have its answer keep its reason. Cells with a new answer, and failures
without a pin, get a pin without a reason.

An entry for a known cause stays unchanged while each of its patterns matches an entry point that shows the cause.
Patterns that match none are removed, and so are parts and entries without patterns. For failures without a pin, the
finding decides: if it names a cause, they get an entry [[known]] without a reason, with a part for each part of the
finding. Otherwise their answers are pinned.

A record may be forged: its texts become values of TOML or escaped comments, never lines or patterns.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import tomlkit

from gradclip_adapters.paths import file_exists
from gradclip_reports.records import Cell, Run
from gradclip_reports.statuses import UNJUDGED
from gradclip_spec.rules.causes import load_causes

from ..cases.patterns import matches
from ..causes.findings import find_origin
from .known_causes import (
    NO_SEARCH,
    Entry,
    KnownCause,
    list_outdated_patterns,
    load_known_entries,
    read_known_entries,
)
from .pins import (
    AGREES,
    CHANCE,
    Deviation,
    find_pin_faults,
    find_pins_file,
    is_version_within,
    load_deviations,
    read_deviations,
    read_release,
)
from .writing import write_comment, write_known_entry, write_pin

__all__ = ["CannotPin", "propose_pins"]

UNEXPLAINED = "To be explained: {}"


class CannotPin(ValueError):
    """No pin can name a cell. The text says why."""


def propose_pins(run: Run, deviations: Sequence[Deviation] | None = None) -> str:
    """Return the text of a file with the pins that still hold, new pins, and comments about errors in pins.

    Parameters
    ----------
    run
        A complete run, of all rules, cases and dtypes.
    deviations
        The pins by which the run was judged; by default, the pins of its adapter.

    Raises
    ------
    CannotPin
        If a cell to be pinned has a name that a pin would read as a pattern, or an answer that no pin can name.
    """
    # A plain function has no version, and a pin must name one.
    adapter, version = run.header.adapter, run.header.framework["version"].partition("+")[0] or "unknown"
    known = load_deviations(adapter) if deviations is None else deviations
    entries = load_known_entries(adapter) if deviations is None else ()
    holding = [one for one in known if one.holds(run.header.framework["version"], run.header.environment)]
    wrong = {id(one) for one in holding if _is_wrong(one, holding, run)}
    blocks = _split_blocks(adapter) if deviations is None else {}
    parts = [blocks.get((), write_comment(f"Known failures of {run.header.framework['name']}."))]
    kept = [left for entry in entries if (left := _remove_outdated(entry, run))]
    parts += [blocks.get(entry) or write_known_entry(entry) for entry in kept]
    new, explained = _make_new_causes(run)
    parts += map(write_known_entry, new)
    for one in known:
        if one.expired or id(one) in wrong:
            continue
        text = blocks.get((one,)) or write_pin(one)
        parts.append(_renew_versions(text, version) if one in holding else text)
    loose = [one for one in holding if id(one) in wrong]
    parts += map(write_pin, _make_new_pins(run, loose, version, explained))
    parts += map(write_comment, find_pin_faults(run, known))
    parts += [
        write_comment(f"Removed from {one.cause!r}: no entry point that matches {pattern!r} shows it.")
        for entry in entries
        for one in entry
        for pattern in list_outdated_patterns(run, one)
    ]
    text = "\n\n".join(parts) + "\n"
    try:
        read_deviations(text, "the proposed file")
        read_known_entries(text, "the proposed file")
    except ValueError as error:
        # A record may hold texts that are not valid in a file of pins.
        msg = f"The failures of {adapter!r} cannot be pinned: {error}"
        raise CannotPin(msg) from error
    return text


def _remove_outdated(entry: Sequence[KnownCause], run: Run) -> tuple[KnownCause, ...]:
    """Return the parts of an entry that still show. Remove the patterns whose entry points do not show the cause."""
    kept = []
    for part in entry:
        outdated = list_outdated_patterns(run, part)
        if subjects := tuple(pattern for pattern in part.subjects if pattern not in outdated):
            kept.append(replace(part, subjects=subjects))
    return tuple(kept)


def _renew_versions(text: str, version: str) -> str:
    """Return the text of a pin that was seen in a version, too. Comments and order stay."""
    document = tomlkit.parse(text)
    (pin,) = document["deviation"]
    if not is_version_within(version, f">={read_release(pin['first_seen'])}"):
        pin["first_seen"] = version
    if not is_version_within(version, f"<{read_release(pin['last_seen'])}"):
        pin["last_seen"] = version
    return tomlkit.dumps(document).rstrip("\n")


def _is_wrong(one: Deviation, holding: Sequence[Deviation], run: Run) -> bool:
    """Return whether a pin must be replaced because a cell changed, a pattern matches nothing, or two pins overlap."""
    cells = [cell for cell in run.cells if one.speaks_of(cell.case, cell.subject)]
    found = [cell for cell in cells if cell.status == "deviation"]
    return (
        any(cell.status == "changed" for cell in cells)
        or any(other.speaks_of(cell.case, cell.subject) for other in holding if other is not one for cell in cells)
        or not all(any(matches(p, cell.case) for cell in found) for p in one.cases)
        or not all(any(matches(p, cell.subject) for cell in found) for p in one.subjects)
    )


def _split_blocks(adapter: str) -> Mapping[tuple[Entry, ...], str]:
    """Return the text of each entry of a file with the comments above it, by its parts. `()` has the first comment."""
    path = find_pins_file(adapter)
    if path is None or not file_exists(path):
        return {}
    blocks = re.split(r"\n\s*\n(?!\[\[known\.parts\]\])", path.read_text(encoding="utf-8").strip())
    first, *parts = _join_comments(blocks)
    texts: dict[tuple[Entry, ...], str] = {}
    kinds: tuple[tuple[str, Sequence[tuple[Entry, ...]]], ...] = (
        ("[[deviation]]", [(one,) for one in load_deviations(adapter)]),
        ("[[known]]", load_known_entries(adapter)),
    )
    for heading, entries in kinds:
        mine = [part for part in (first, *parts) if heading in part]
        # A value of several lines may hold a blank line, which splits its entry. Then the entries are written anew.
        if len(mine) == len(entries) and all(_is_entry(text, one) for text, one in zip(mine, entries, strict=True)):
            texts.update(zip(entries, mine, strict=True))
    # Keep the first part only if it is a comment, because an entry would be written twice. The part is empty if the
    # shell redirects the output to this file.
    if first and _is_comment(first):
        texts[()] = first
    return texts


def _is_comment(text: str) -> bool:
    return all(line.lstrip().startswith("#") for line in text.splitlines())


def _join_comments(parts: Sequence[str]) -> list[str]:
    """Return the parts of a file, each with the comments above it. The file's first part stands alone."""
    first, *rest = parts
    joined, above = [first], ""
    for part in rest:
        if _is_comment(part):
            above += f"{part}\n\n"
        else:
            joined.append(above + part)
            above = ""
    return joined


def _is_entry(text: str, entry: tuple[Entry, ...]) -> bool:
    """Return whether a text is this entry and nothing else."""
    try:
        pins, known = read_deviations(text, "an entry"), read_known_entries(text, "an entry")
    except ValueError:
        return False
    return [*((one,) for one in pins), *known] == [entry]


def _make_new_causes(run: Run) -> tuple[list[list[KnownCause]], set[tuple[str, str]]]:
    """Return entries for failures with a cause that are not known yet, and the cells that they explain."""
    failed = {cell.pair for cell in run.cells if _is_unknown(cell)}
    entries: dict[str, list[KnownCause]] = {}
    explained: set[tuple[str, str]] = set()
    for finding in run.singles:
        found = {*finding.pairs} & failed
        if not found or finding.cause not in load_causes():
            continue
        subjects = tuple(sorted({name for name, _ in found}))
        for name in subjects:
            _refuse_patterns(name, ())
        parameters = tuple(
            (str(name), tuple(map(_escape, value.split(CHANCE))) if isinstance(value, str) else (value,))
            for name, value in sorted(finding.parameters.items())
        )
        made = KnownCause(finding.cause, subjects, "", NO_SEARCH, "", parameters)
        entries.setdefault(find_origin(finding.cause), []).append(made)
        explained |= found
    return list(entries.values()), explained


def _is_unknown(cell: Cell) -> bool:
    return cell.status in ("fail", "crash", "timeout") or (cell.status == "changed" and AGREES not in cell.detail)


def _escape(text: str) -> str:
    """Return a text as a pattern. A record must not choose one that matches everything."""
    if "*" in text and not re.search(r"[A-Za-z]{3}", text):
        msg = f"{text!r} cannot be pinned: a `*` in a pin stands for any text."
        raise CannotPin(msg)
    return text


def _make_new_pins(
    run: Run, loose: Sequence[Deviation], version: str, explained: Collection[tuple[str, str]]
) -> list[Deviation]:
    """Return pins for failures without a pin, and for known failures whose pins are made anew."""
    groups: dict[tuple[str, Deviation], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for cell in run.cells:
        if cell.pair in explained:
            continue
        if (pin := _make_pin(cell, loose, version)) is not None:
            groups[cell.rule, pin][cell.subject].add(cell.case)
    pins: dict[tuple[Deviation, tuple[str, ...]], list[str]] = defaultdict(list)
    for (_, pin), by_subject in groups.items():
        for subject, cases in by_subject.items():
            _refuse_patterns(subject, cases)
            judged = {cell.case for cell in run.cells if cell.subject == subject and cell.status not in UNJUDGED}
            pins[pin, tuple(_find_patterns(cases, judged - cases))].append(subject)
    return [replace(pin, subjects=tuple(sorted(names)), cases=cases) for (pin, cases), names in pins.items()]


def _refuse_patterns(subject: str, cases: Iterable[str]) -> None:
    """Refuse names that a pin would read as patterns. A subject called `*` would excuse all subjects."""
    for name in (subject, *cases):
        if "*" in name:
            msg = f"{name!r} cannot be pinned: a `*` in a pin stands for any text."
            raise CannotPin(msg)
    for case in cases:
        if case.count("/") != 2:
            msg = f"{case!r} cannot be pinned: it is not of the form RULE/VARIANT/DTYPE."
            raise CannotPin(msg)


def _make_pin(cell: Cell, loose: Sequence[Deviation], version: str) -> Deviation | None:
    """Return a new pin of a cell, without subjects and cases, or None if the cell needs no pin."""
    if cell.status == "deviation":
        known = [one for one in loose if one.speaks_of(cell.case, cell.subject)]
        return replace(known[0], subjects=(), cases=(), mode="*", last_seen=version) if known else None
    if cell.status != "fail" and (cell.status != "changed" or AGREES in cell.detail):
        return None
    if not cell.behaviour:
        msg = f"{cell.case!r} of {cell.subject!r} cannot be pinned: the record does not say what came back."
        raise CannotPin(msg)
    if CHANCE in cell.behaviour:
        msg = (
            f"{cell.case!r} of {cell.subject!r} cannot be pinned: "
            f"its answer {cell.behaviour!r} reads as several answers."
        )
        raise CannotPin(msg)
    reason = UNEXPLAINED.format(f"the answer is {cell.behaviour.partition(':')[0]}.")
    return Deviation((), (), cell.behaviour, reason, NO_SEARCH, version, version)


def _find_patterns(cases: Collection[str], others: Collection[str]) -> list[str]:
    """Return as few patterns as possible that match only these cases, the widest patterns first."""
    left, chosen = set(cases), []
    for shape in ("{rule}/*", "{rule}/{variant}/*", "{rule}/*/{dtype}", "{rule}/{variant}/{dtype}"):
        for case in sorted(left):
            rule, variant, dtype = case.split("/")
            pattern = shape.format(rule=rule, variant=variant, dtype=dtype)
            if case in left and not any(matches(pattern, other) for other in others):
                chosen.append(pattern)
                left = {one for one in left if not matches(pattern, one)}
    return chosen
