"""Load the catalogue of causes from `causes.toml`. Each cause is one way to differ from the rules."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

from . import THEMES

__all__ = [
    "SEVERITIES",
    "Cause",
    "CauseGroup",
    "load_cause_groups",
    "load_causes",
    "parse_cause_groups",
    "parse_causes",
]

#: The severities, worst first.
SEVERITIES = {
    "destroyed": "finite gradients become zero, NaN or infinite",
    "unclipped": "gradients that must be clipped are not",
    "wrong": "a finite, plausible, wrong result",
    "silent": "NaN or infinity passes unseen",
    "refused": "an error or a crash in place of an answer",
    "form": "shape, dtype, order, None, or what is written to",
    "rounding": "poor accuracy that the dtype's arithmetic explains",
}


@dataclass(frozen=True)
class Cause:
    """One way to differ from the rules."""

    id: str
    #: The behaviour of a function with this cause, in plain words.
    title: str
    #: The question that the behaviour answers.
    question: str
    severity: str
    #: The reason why it matters.
    why: str
    #: The themes of the rules that it affects.
    themes: tuple[str, ...]


@dataclass(frozen=True)
class CauseGroup:
    """Causes with one origin. Their findings are the parts of one finding."""

    id: str
    title: str
    question: str
    why: str
    #: The ids of the causes.
    causes: tuple[str, ...]


FILE = "causes.toml"


@cache
def load_causes() -> Mapping[str, Cause]:
    """Return every cause by its id, in the order of the file."""
    return parse_causes(_read_catalogue(), FILE)


@cache
def load_cause_groups() -> Mapping[str, CauseGroup]:
    """Return every group of causes by its id, in the order of the file."""
    return parse_cause_groups(_read_catalogue(), FILE)


def _read_catalogue() -> str:
    return files(__package__).joinpath(FILE).read_text(encoding="utf-8")


def parse_causes(text: str, file: str) -> Mapping[str, Cause]:
    """Return the causes in a text.

    Raises
    ------
    ValueError
        If an entry is malformed; the message names the file, the entry and the field.
    """
    causes: dict[str, Cause] = {}
    for where, entry in _list_entries(text, file, "cause"):
        cause = _read_cause(entry, where)
        _refuse_second(cause.id, causes, where)
        causes[cause.id] = cause
    return causes


def parse_cause_groups(text: str, file: str) -> Mapping[str, CauseGroup]:
    """Return the groups of causes in a text.

    Raises
    ------
    ValueError
        If an entry is malformed; the message names the file, the entry and the field.
    """
    causes = parse_causes(text, file)
    groups: dict[str, CauseGroup] = {}
    members: dict[str, str] = {}
    for where, entry in _list_entries(text, file, "group"):
        group = _read_group(entry, where)
        _refuse_second(group.id, {**causes, **groups}, where)
        for cause in group.causes:
            if cause not in causes:
                message = f"{where}, causes: there is no cause {cause!r}"
                raise ValueError(message)
            if members.setdefault(cause, where) != where:
                message = f"{where}, causes: the cause {cause!r} is in another group, too"
                raise ValueError(message)
        groups[group.id] = group
    return groups


def _list_entries(text: str, file: str, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the entries of one kind, each with its place for messages."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"{file} is not TOML: {error}"
        raise ValueError(message) from error
    entries = document.get(kind, [])
    if set(document) - {"cause", "group"} or not isinstance(entries, list):
        message = f"{file} must hold entries [[cause]] and [[group]] and nothing else; it holds {sorted(document)}"
        raise ValueError(message)
    for number, entry in enumerate(entries, start=1):
        where = f"{file}, [[{kind}]] {number}"
        if not isinstance(entry, dict):
            message = f"{where}: an entry must be a table"
            raise ValueError(message)
        yield (f"{where} ({entry['id']})" if isinstance(entry.get("id"), str) else where), entry


def _refuse_second(name: str, known: Collection[str], where: str) -> None:
    if name in known:
        message = f"{where}, id: the id {name!r} appears twice"
        raise ValueError(message)


#: The fields that hold a list of texts, and the kind of text.
LISTS = {"themes": "themes", "causes": "causes"}


def _check_fields(entry: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Refuse an entry with a missing, an unknown or a wrong field."""
    for name in sorted(set(entry) ^ set(names)):
        message = f"{where}, {name}: {'this field is missing' if name in names else 'there is no such field'}"
        raise ValueError(message)
    for name in names:
        value = entry[name]
        right = (
            isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
            if name in LISTS
            else isinstance(value, str) and bool(value)
        )
        if not right:
            kind = f"a list of {LISTS[name]}" if name in LISTS else "a text that is not empty"
            message = f"{where}, {name}: {value!r} is not {kind}"
            raise ValueError(message)


def _read_group(entry: Mapping[str, Any], where: str) -> CauseGroup:
    _check_fields(entry, [field.name for field in fields(CauseGroup)], where)
    return CauseGroup(**{**entry, "causes": tuple(entry["causes"])})


def _read_cause(entry: Mapping[str, Any], where: str) -> Cause:
    _check_fields(entry, [field.name for field in fields(Cause)], where)
    if entry["severity"] not in SEVERITIES:
        message = f"{where}, severity: {entry['severity']!r} is not one of {', '.join(SEVERITIES)}"
        raise ValueError(message)
    if unknown := sorted(set(entry["themes"]) - set(THEMES)):
        message = f"{where}, themes: there is no theme {unknown[0]!r}"
        raise ValueError(message)
    return Cause(**{**entry, "themes": tuple(entry["themes"])})
