"""Propose a file of known failures for a record. With this file, a run with the same answers has no failures.

An entry stays as it is while each of its patterns of entry points shows the failure. Patterns that show it no longer
are removed, and so are entries without patterns. For new failures, the finding decides: if it names a cause, they get
an entry for this cause. Otherwise the entry names the rule, or the cases. The reason is left to you.

A record may be forged: its texts become values of TOML or escaped comments, never lines or patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields, replace
from typing import Any

import tomlkit

from gradclip_reports.records import Finding, Run
from gradclip_reports.statuses import UNEXPLAINED, UNJUDGED, Status
from gradclip_reports.values import escape_line
from gradclip_reports.versions import JOINT
from gradclip_spec.rules.causes import load_causes

from .failures import NO_SEARCH, KnownFailure, read_known
from .faults import list_outdated_patterns

#: The statuses of failures that an entry can excuse.
NEW = (Status.FAIL, Status.CRASH, Status.TIMEOUT)


class CannotPropose(ValueError):
    """No entry can name a failure. The text says why."""


def propose_known(run: Run, text: str) -> str:
    """Return the text of a file with the entries that still hold, and new ones.

    Parameters
    ----------
    run
        A complete run, of all rules, cases and dtypes.
    text
        The text of the present file, which may be empty.

    Raises
    ------
    CannotPropose
        If a failure has a name that an entry would read as a pattern.
    ValueError
        If the present text is not well-formed.
    """
    top, *parts = _split_entries(text)
    kept = [top or f"# Known failures of {escape_line(run.header.framework['name'])}."]
    for entry, part in zip(read_known(text, "the file"), parts, strict=True):
        outdated = list_outdated_patterns(run, entry)
        if not outdated:
            kept.append(part)
        elif entry_points := tuple(pattern for pattern in entry.subjects if pattern not in outdated):
            comments = part.partition("[[known]]")[0]
            kept.append(comments + write_known(replace(entry, subjects=entry_points)))
    proposed = "\n\n".join([*kept, *map(write_known, _make_new(run))]) + "\n"
    try:
        read_known(proposed, "the proposed file")
    except ValueError as error:
        # A record may hold texts that are not valid in a file of known failures.
        msg = f"The failures of {run.header.adapter!r} cannot be recorded: {error}"
        raise CannotPropose(msg) from error
    return proposed


def _split_entries(text: str) -> list[str]:
    """Return the comment at the top of a file, and each entry with the comments above it."""
    top, *paragraphs = re.split(r"\n\s*\n", text.strip())
    parts: list[list[str]] = [[]]
    for paragraph in paragraphs:
        parts[-1].append(paragraph)
        if "[[known]]" in paragraph:
            parts.append([])
    entries = read_known(text, "the file")
    whole = ["\n\n".join(part) for part in parts if part]
    if all(line.startswith("#") for line in top.splitlines()) and _hold(whole, entries):
        return [top, *whole]
    # A value of several lines may hold a blank line, and entries need no blank line between them.
    return ["", *map(write_known, entries)]


def _hold(parts: list[str], entries: Iterable[KnownFailure]) -> bool:
    """Return whether each part holds one entry."""
    try:
        return [read_known(part, "an entry") for part in parts] == [(entry,) for entry in entries]
    except ValueError:
        return False


def _make_new(run: Run) -> Iterator[KnownFailure]:
    """Yield entries for the failures that are not known yet."""
    failed = {cell.pair for cell in run.cells if cell.status in NEW}
    for finding in run.singles:
        pairs = {*finding.pairs} & failed
        for entry_point, case in pairs:
            _refuse_patterns(entry_point, case)
        if pairs and finding.cause in load_causes():
            entry_points = tuple(sorted({entry_point for entry_point, _ in pairs}))
            yield _make_entry(finding.cause, entry_points, _read_parameters(finding))
        elif pairs and finding.cause == UNEXPLAINED:
            for rules, names in _group_by_rules(run, pairs).items():
                yield _make_entry("", tuple(names), (), rules)


def _make_entry(
    cause: str, entry_points: tuple[str, ...], parameters: Any, rules: tuple[str, ...] = ("*",)
) -> KnownFailure:
    return KnownFailure(
        cause=cause, parameters=parameters, subjects=entry_points, rules=rules, reason="", url=NO_SEARCH, checked=""
    )


def _read_parameters(finding: Finding) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    return tuple(
        (str(name), tuple(map(_refuse_lax_text, value.split(JOINT))) if isinstance(value, str) else (value,))
        for name, value in sorted(finding.parameters.items())
    )


def _group_by_rules(run: Run, pairs: set[tuple[str, str]]) -> dict[tuple[str, ...], list[str]]:
    """Return the entry points by what an entry must name: their rules if all judged cells failed, else their cases."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for entry_point in sorted({name for name, _ in pairs}):
        cases = {case for name, case in pairs if name == entry_point}
        rules = {case.partition("/")[0] for case in cases}
        judged = {
            cell.case
            for cell in run.cells
            if cell.subject == entry_point and cell.rule in rules and cell.status not in UNJUDGED
        }
        groups.setdefault(tuple(sorted(rules if judged <= cases else cases)), []).append(entry_point)
    return groups


def _refuse_patterns(*names: str) -> None:
    """Refuse names that an entry would read as patterns. An entry point called `*` would excuse all entry points."""
    for name in names:
        if "*" in name:
            msg = f"{name!r} cannot be recorded: a `*` in an entry stands for any text."
            raise CannotPropose(msg)


def _refuse_lax_text(text: str) -> str:
    """Return the text of a parameter, which may be a pattern. A record must not choose one that matches everything."""
    if "*" in text and not re.search(r"[A-Za-z]{3}", text):
        _refuse_patterns(text)
    return text


def write_known(one: KnownFailure) -> str:
    """Return the text of an entry."""
    table = tomlkit.table()
    for field in fields(KnownFailure):
        value = getattr(one, field.name)
        if field.default is not MISSING and value == field.default:
            continue
        table.add(field.name, _make_parameters(value) if field.name == "parameters" else _make_value(value))
    document = tomlkit.document()
    entries = tomlkit.aot()
    entries.append(table)
    document.add("known", entries)
    return tomlkit.dumps(document).strip("\n")


def _make_parameters(parameters: Iterable[tuple[str, tuple[Any, ...]]]) -> Any:
    inline = tomlkit.inline_table()
    inline.update({name: values[0] if len(values) == 1 else list(values) for name, values in parameters})
    return inline


def _make_value(value: Any) -> Any:
    if not isinstance(value, tuple):
        return tomlkit.item(value)
    array = tomlkit.array()
    for each in value:
        array.append(tomlkit.string(each))
    # A long list has one name in each line.
    return array.multiline(len(value) > 3)
