"""Read the known failures of a framework: the entries [[known]] of `expectations/<adapter>.toml`.

The file for your own adapter, `my_adapter.py`, is `my_adapter.expectations.toml` in the same folder.

A framework has few causes, and each makes many cells fail. An entry makes every failure that its cause explains a known
one. A failure that no cause explains needs an entry without a cause: it names the rules or cases that fail.
`docs/how-to/known-failures.md` explains the keys of an entry.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from gradclip_reports.records import Run
from gradclip_spec.rules.causes import load_cause_groups, load_causes

from ..cases.patterns import matches, matches_any, suggest_known
from ..cases.toml_files import parse_toml, read_toml
from ..causes.model import Explanation
from .files import find_sidecar_file, holds, is_version_within, read_entries

EXPECTATIONS = Path(__file__).parent / "expectations"

#: The `url` of an entry for which nobody has looked for an upstream thread.
NO_SEARCH = "no search was made"


@dataclass(frozen=True, kw_only=True)
class KnownFailure:
    """One known failure."""

    #: The id of the cause. If it is empty, the entry is about every failure of its rules.
    cause: str = ""
    #: The values that each parameter may have.
    parameters: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    subjects: tuple[str, ...]
    rules: tuple[str, ...] = ("*",)
    versions: str = ""
    devices: str = "*"
    by_chance: bool = False
    reason: str
    url: str
    checked: str

    def speaks_of(self, case: str, entry_point: str) -> bool:
        """Return whether the entry may be about a cell."""
        return matches_any(self.subjects, entry_point) and matches_any(self.rules, case, case.partition("/")[0])

    def is_shown_by(self, found: Explanation | None) -> bool:
        """Return whether a failure with this explanation is the known one."""
        if not self.cause:
            return True
        own = dict(found.parameters) if found is not None else {}
        return (found is not None and found.cause == self.cause) and all(
            name in own and any(_is_value(value, own[name]) for value in values) for name, values in self.parameters
        )

    @property
    def suspect(self) -> Explanation:
        """The cause with one value for each parameter, in the form that the models need."""
        return Explanation(self.cause, tuple((name, values[0]) for name, values in self.parameters))


def _is_value(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, str) and isinstance(value, str):
        return matches(wanted, value)
    return bool(wanted == value)


def find_known_file(adapter: str) -> Path | None:
    """Return the path of an adapter's file of known failures, which need not exist. Return None for a plain function.

    Raises
    ------
    ValueError
        If the name of an adapter has unusual characters.
    """
    return find_sidecar_file(adapter, "expectations", EXPECTATIONS)


def load_known(adapter: str) -> tuple[KnownFailure, ...]:
    """Return the known failures of an adapter's framework, or none if there is no file.

    Raises
    ------
    ValueError
        If an entry is not well-formed.
    """
    path = find_known_file(adapter)
    if path is None or not os.path.isfile(path):
        return ()
    return _read_entries(read_toml(path), path.name)


def load_known_of(adapter: str, version: str, environment: Mapping[str, str]) -> tuple[KnownFailure, ...]:
    """Return the known failures of one version of an adapter's framework, on the device of its environment."""
    return tuple(one for one in load_known(adapter) if holds(one, version, environment))


def read_known(text: str, file: str) -> tuple[KnownFailure, ...]:
    """Return the known failures in the text of a file.

    Raises
    ------
    ValueError
        If an entry is not well-formed.
    """
    return _read_entries(parse_toml(text, file), file)


def depends_on_chance(run: Run, pair: tuple[str, str]) -> bool:
    """Return whether the answer of a run to a pair of an entry point and a case is known to depend on chance."""
    entry_point, case = pair
    return any(
        one.speaks_of(case, entry_point) and holds(one, run.header.framework["version"], run.header.environment)
        for one in _list_by_chance(run.header.adapter)
    )


@cache
def _list_by_chance(adapter: str) -> tuple[KnownFailure, ...]:
    try:
        return tuple(one for one in load_known(adapter) if one.by_chance)
    except ValueError:
        # The record may name an adapter that can have no file, or one whose file has faults.
        return ()


def _read_entries(document: dict[str, Any], file: str) -> tuple[KnownFailure, ...]:
    return read_entries(document, "known", file, "expectations.json", _refuse_misspelt, _make_entry)


#: The fields that each entry must have.
REQUIRED = ("subjects", "reason", "url", "checked")


def _refuse_misspelt(entry: Any) -> None:
    """Refuse an entry with an unknown field or cause. The message is clearer than the schema's message."""
    if not isinstance(entry, dict):
        return
    names = [field.name for field in fields(KnownFailure)]
    for name in entry:
        if name not in names:
            msg = f"there is no field {name!r}.{suggest_known(name, names)}"
            raise ValueError(msg)
    for name in REQUIRED:
        if name not in entry:
            msg = f"{name}: this field is missing"
            raise ValueError(msg)
    if "cause" not in entry and ("rules" not in entry or "parameters" in entry):
        msg = "cause: this field is missing; an entry without a cause names the rules or cases that fail"
        raise ValueError(msg)
    cause = entry.get("cause")
    if isinstance(cause, str) and cause not in load_causes():
        groups = load_cause_groups()
        hint = (
            f" It is a group: write an entry for each of {', '.join(groups[cause].causes)}."
            if cause in groups
            else suggest_known(cause, [*load_causes()])
        )
        msg = f"cause: there is no cause {cause!r}.{hint}"
        raise ValueError(msg)


def _make_entry(entry: Mapping[str, Any]) -> KnownFailure:
    """Return the known failure of an entry that satisfies the schema."""
    parameters = tuple(
        (name, tuple(value) if isinstance(value, list) else (value,))
        for name, value in sorted(entry.get("parameters", {}).items())
    )
    lists = {"subjects": tuple(entry["subjects"]), "rules": tuple(entry.get("rules", ["*"]))}
    made = KnownFailure(**{**entry, **lists, "parameters": parameters})
    # Parse the specifier now, so that an error is not delayed until the first cell is judged.
    is_version_within("0", made.versions)
    if made.checked:
        datetime.date.fromisoformat(made.checked)
    if "eps" in entry.get("parameters", {}):
        float(dict(made.suspect.parameters)["eps"])
    return made
