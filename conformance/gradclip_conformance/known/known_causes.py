"""Read the known failures that are pinned by their cause: entries [[known]] of `expectations/<adapter>.toml`.

A framework has few causes, and each makes many cells fail. An entry turns every failure that its cause reproduces into
`deviation`. A failure with another cause, or with no known cause, becomes `changed` if the cause of the entry could
break the same rule.

============== ========================================================================================================
`cause`        the id of a cause in `gradclip_spec/rules/causes.toml`; with `parts`, also of a group of causes
`parameters`   the parameters that the cause must have (optional); a value is a number, a pattern, or a list of
               alternatives; `effect` is the effect on the gradients, `text` the message of an error
`subjects`     patterns of names of entry points, in which only `*` is special
`rules`        patterns of rules or cases (optional: all)
`versions`     a specifier such as ">=2.6,<3" (optional)
`platforms`    a pattern of the record's platform (optional)
`devices`      a pattern of the device that the adapter names, such as "cpu" or "cuda*" (optional: all)
`reason`       the framework's behaviour and its cause, in a sentence; the verdict counts the entries without a reason
`url`          the upstream thread, "none found", or "no search was made"
`checked`      the day on which the failure was reproduced without the suite, and upstream threads were searched
`parts`        tables with the fields above, for a finding with several parts (optional); a part takes the fields that
               it leaves out from its entry
============== ========================================================================================================
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

from gradclip_adapters.paths import file_exists
from gradclip_reports.records import Run
from gradclip_reports.statuses import Status
from gradclip_reports.values import escape_line
from gradclip_spec import rules
from gradclip_spec.rules.causes import load_cause_groups, load_causes

from ..cases.patterns import matches, matches_any, suggest_known
from ..cases.toml_files import add_place_to_errors, check_document, parse_toml, read_toml
from ..causes.model import Explanation, Suspect
from .files import SCHEMAS
from .pins import Deviation, find_pins_file, is_on_device, is_version_within, load_deviations

__all__ = [
    "NO_SEARCH",
    "Entry",
    "KnownCause",
    "find_known_faults",
    "list_outdated_patterns",
    "load_known",
    "load_known_causes",
    "load_known_entries",
    "read_known_causes",
    "read_known_entries",
]

#: The `url` of an entry for which nobody has looked for an upstream thread.
NO_SEARCH = "no search was made"

THEMES = {rule.id: rule.theme for rule in rules.load()}


@dataclass(frozen=True)
class KnownCause:
    """One known failure, pinned by its cause: an entry without parts, or one part of an entry."""

    cause: str
    subjects: tuple[str, ...]
    reason: str
    url: str
    checked: str
    #: The values that each parameter may have.
    parameters: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    rules: tuple[str, ...] = ("*",)
    versions: str = ""
    platforms: str = "*"
    devices: str = "*"

    #: Whether each call needs a fresh process. None does: only a call that ends its process is repeated in a fresh one.
    is_deadly = False

    def holds(self, version: str, environment: Mapping[str, str]) -> bool:
        """Return whether the entry is about this version on this platform and device."""
        there = matches(self.platforms, environment.get("platform", "")) and is_on_device(environment, self.devices)
        return there and is_version_within(version, self.versions)

    def speaks_of(self, case: str, subject: str) -> bool:
        """Return whether the entry may be about a cell."""
        return matches_any(self.subjects, subject) and matches_any(self.rules, case, case.partition("/")[0])

    def is_shown_by(self, found: Explanation) -> bool:
        """Return whether an explanation is this cause, with these parameters."""
        own = dict(found.parameters)
        return found.cause == self.cause and all(
            name in own and any(_is_value(value, own[name]) for value in values) for name, values in self.parameters
        )

    @property
    def suspect(self) -> Suspect:
        """The cause with one value for each parameter, in the form that the models need."""
        return Suspect(self.cause, {name: values[0] for name, values in self.parameters})

    def touches(self, rule: str) -> bool:
        """Return whether the cause could break this rule."""
        return THEMES.get(rule, "") in load_causes()[self.cause].themes


Entry = Deviation | KnownCause


def _is_value(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, str) and isinstance(value, str):
        return matches(wanted, value)
    return bool(wanted == value)


def load_known(adapter: str) -> tuple[Entry, ...]:
    """Return all known failures of an adapter's framework: those pinned by their answers, and those by their cause.

    Raises
    ------
    ValueError
        When an entry is not well-formed.
    """
    return (*load_deviations(adapter), *load_known_causes(adapter))


def load_known_causes(adapter: str) -> tuple[KnownCause, ...]:
    """Return the known causes of an adapter's framework, or none if there is no file.

    Raises
    ------
    ValueError
        When an entry is not well-formed.
    """
    return tuple(chain.from_iterable(load_known_entries(adapter)))


def load_known_entries(adapter: str) -> tuple[tuple[KnownCause, ...], ...]:
    """Return the entries of an adapter's framework: a tuple for each entry, which holds its parts.

    Raises
    ------
    ValueError
        When an entry is not well-formed.
    """
    path = find_pins_file(adapter)
    if path is None or not file_exists(path):
        return ()
    return _make_entries(read_toml(path), path.name)


def read_known_causes(text: str, file: str) -> tuple[KnownCause, ...]:
    """Return the known causes in the text of a file.

    Raises
    ------
    ValueError
        When an entry is not well-formed.
    """
    return tuple(chain.from_iterable(read_known_entries(text, file)))


def read_known_entries(text: str, file: str) -> tuple[tuple[KnownCause, ...], ...]:
    """Return the entries in the text of a file: a tuple for each entry, which holds its parts.

    Raises
    ------
    ValueError
        When an entry is not well-formed.
    """
    return _make_entries(parse_toml(text, file), file)


def _make_entries(document: dict[str, Any], file: str) -> tuple[tuple[KnownCause, ...], ...]:
    entries = document.get("known", [])
    for number, entry in enumerate(entries if isinstance(entries, list) else (), start=1):
        with add_place_to_errors(f"{file}, [[known]] {number}"):
            _refuse_misspelt(entry)
    check_document(document, SCHEMAS / "expectations.json", file)
    found = []
    for number, entry in enumerate(entries, start=1):
        with add_place_to_errors(f"{file}, [[known]] {number}"):
            found.append(tuple(_make_known_cause(part) for part in _list_parts(entry)))
    return tuple(found)


def _list_parts(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of an entry, each with the fields that it takes from the entry."""
    common = {name: value for name, value in entry.items() if name != "parts"}
    return [{**common, **part} for part in entry.get("parts", ({},))]


#: The fields that an entry or each of its parts must have.
REQUIRED = ("cause", "subjects", "reason", "url", "checked")


def _refuse_misspelt(entry: Any) -> None:
    """Refuse an entry with an unknown key or cause. The message is clearer than the schema's message."""
    if not isinstance(entry, dict):
        return
    names = [field.name for field in fields(KnownCause)]
    _refuse_unknown_fields(entry, [*names, "parts"])
    parts = entry.get("parts", ({},))
    if not isinstance(parts, list | tuple) or not all(isinstance(part, dict) for part in parts):
        return
    for number, part in enumerate(parts, start=1):
        with add_place_to_errors(f"parts {number}") if "parts" in entry else nullcontext():
            _refuse_unknown_fields(part, names)
            whole = {**entry, **part}
            for name in REQUIRED:
                if name not in whole:
                    msg = f"{name}: this field is missing"
                    raise ValueError(msg)
            _refuse_unknown_cause(whole["cause"], entry.get("cause", whole["cause"]))


def _refuse_unknown_fields(entry: Iterable[str], names: Sequence[str]) -> None:
    for name in entry:
        if name not in names:
            msg = f"there is no field {name!r}.{suggest_known(name, names)}"
            raise ValueError(msg)


def _refuse_unknown_cause(cause: Any, origin: Any) -> None:
    """Refuse a cause that does not exist, a group in place of a cause, or a cause of another group than its entry's."""
    if not isinstance(cause, str) or not isinstance(origin, str):
        return
    causes, groups = load_causes(), load_cause_groups()
    for name in (origin, cause):
        if name not in causes and name not in groups:
            msg = f"cause: there is no cause {name!r}.{suggest_known(name, [*causes, *groups])}"
            raise ValueError(msg)
    members = groups[origin].causes if origin in groups else (origin,)
    if cause not in members:
        joined = ", ".join(members)
        msg = (
            f"cause: {cause!r} is a group of causes; name one cause in each of the entry's parts: {joined}"
            if cause == origin
            else f"cause: {cause!r} is not a part of {origin!r}, which has {joined}"
        )
        raise ValueError(msg)


def _make_known_cause(entry: Mapping[str, Any]) -> KnownCause:
    """Return the known cause of an entry or a part that satisfies the schema."""
    parameters = tuple(
        (name, tuple(value) if isinstance(value, list) else (value,))
        for name, value in sorted(entry.get("parameters", {}).items())
    )
    lists = {"subjects": tuple(entry["subjects"]), "rules": tuple(entry.get("rules", ["*"]))}
    made = KnownCause(**{**entry, **lists, "parameters": parameters})
    # Parse the specifier now, so that an error is not delayed until the first cell is judged.
    is_version_within("0", made.versions)
    if made.checked:
        datetime.date.fromisoformat(made.checked)
    if "eps" in entry.get("parameters", {}):
        float(made.suspect.parameters["eps"])
    return made


def find_known_faults(run: Run, entries: Sequence[Entry] | None = None) -> list[str]:
    """Return a sentence for each pattern of subjects that is out of date.

    This means that no subject that matches the pattern shows the known cause. The run must be complete, because other
    cells might show it.
    """
    known = load_known(run.header.adapter) if entries is None else entries
    return [
        escape_line(
            f"The known failure {one.cause!r}: no entry point that matches {pattern!r} shows it; remove the pattern."
        )
        for one in known
        if isinstance(one, KnownCause)
        for pattern in list_outdated_patterns(run, one)
    ]


def list_outdated_patterns(run: Run, one: KnownCause) -> list[str]:
    """Return the patterns of subjects whose subjects do not show a known cause in a complete run.

    A run that was asked none of the entry's rules shows nothing about it: some frameworks get the rows on request only.
    """
    if not one.holds(run.header.framework["version"], run.header.environment):
        return []
    if not any(matches_any(one.rules, cell.case, cell.rule) for cell in run.cells):
        return []
    deviating = {cell.pair for cell in run.cells if cell.status == Status.DEVIATION}
    shown = set(_list_subjects(one, run, deviating))
    return [pattern for pattern in one.subjects if not any(matches(pattern, subject) for subject in shown)]


def _list_subjects(one: KnownCause, run: Run, deviating: set[tuple[str, str]]) -> Iterable[str]:
    for finding in run.singles:
        if finding.cause != one.cause:
            continue
        for subject, cases in finding.cells.items():
            if any((subject, case) in deviating and one.speaks_of(case, subject) for case in cases):
                yield subject
