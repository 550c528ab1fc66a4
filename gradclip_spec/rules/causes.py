"""Load the catalogue of causes: each way to differ from the rules as data, from `causes.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

from . import THEMES

__all__ = ["SEVERITIES", "Cause", "load_causes", "parse_causes"]

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


@cache
def load_causes() -> Mapping[str, Cause]:
    """Return every cause by its id, in the order of the file."""
    return parse_causes(files(__package__).joinpath("causes.toml").read_text(encoding="utf-8"), "causes.toml")


def parse_causes(text: str, file: str) -> Mapping[str, Cause]:
    """Return the causes in a text.

    Raises
    ------
    ValueError
        If an entry is malformed; the text names the file, the entry and the field.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"{file} is not TOML: {error}"
        raise ValueError(message) from error
    entries = document.get("cause", [])
    if set(document) - {"cause"} or not isinstance(entries, list):
        message = f"{file} must hold entries [[cause]] and nothing else; it holds {sorted(document)}"
        raise ValueError(message)
    causes: dict[str, Cause] = {}
    for number, entry in enumerate(entries, start=1):
        where = f"{file}, [[cause]] {number}"
        if not isinstance(entry, dict):
            message = f"{where}: an entry must be a table"
            raise ValueError(message)
        cause = _read_cause(entry, where)
        if cause.id in causes:
            message = f"{where}, id: the cause {cause.id!r} appears twice"
            raise ValueError(message)
        causes[cause.id] = cause
    return causes


def _read_cause(entry: Mapping[str, Any], where: str) -> Cause:
    names = [field.name for field in fields(Cause)]
    where = f"{where} ({entry['id']})" if isinstance(entry.get("id"), str) else where
    for name in sorted(set(entry) ^ set(names)):
        message = f"{where}, {name}: {'this field is missing' if name in names else 'there is no such field'}"
        raise ValueError(message)
    for name in names:
        value = entry[name]
        right = (
            isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
            if name == "themes"
            else isinstance(value, str) and bool(value)
        )
        if not right:
            kind = "a list of themes" if name == "themes" else "a text that is not empty"
            message = f"{where}, {name}: {value!r} is not {kind}"
            raise ValueError(message)
    if entry["severity"] not in SEVERITIES:
        message = f"{where}, severity: {entry['severity']!r} is not one of {', '.join(SEVERITIES)}"
        raise ValueError(message)
    if unknown := sorted(set(entry["themes"]) - set(THEMES)):
        message = f"{where}, themes: there is no theme {unknown[0]!r}"
        raise ValueError(message)
    return Cause(**{**entry, "themes": tuple(entry["themes"])})
