"""Load the catalogue of causes from `causes.toml`. Each cause is one way to differ from the rules."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from . import check_keys

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


T = TypeVar("T", Cause, CauseGroup)


@cache
def load_causes() -> Mapping[str, Cause]:
    """Return every cause by its id, in the order of the file.

    Raises
    ------
    ValueError
        If an entry lacks a field, or has an unknown one.
    """
    return _load_entries("cause", Cause)


@cache
def load_cause_groups() -> Mapping[str, CauseGroup]:
    """Return every group of causes by its id, in the order of the file.

    Raises
    ------
    ValueError
        If an entry lacks a field, or has an unknown one.
    """
    return _load_entries("group", CauseGroup)


def _load_entries(kind: str, made: type[T]) -> dict[str, T]:
    """Return the entries of one kind by their ids. `tests/spec/test_rules.py` checks their values."""
    known = {field.name for field in fields(made)}
    entries: dict[str, T] = {}
    for entry in tomllib.loads(files(__package__).joinpath("causes.toml").read_text(encoding="utf-8"))[kind]:
        check_keys(entry, known, known, f"the {kind} {entry.get('id', '(without id)')} in causes.toml")
        members: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()
        }
        entries[entry["id"]] = made(**members)
    return entries
