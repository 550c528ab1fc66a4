"""The rule book: each rule as data, read from the TOML files beside this one.

A file is a theme; an entry stands for one rule of each of its operations. The id of a rule is its operation and its
name, `global-norm.excluded-not-counted`; ids are never reused. `python -m gradclip_spec.rules` prints the rule book.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["LEVELS", "OPERATIONS", "THEMES", "Rule", "Source", "load"]

#: The operations as rule ids name them.
OPERATIONS = ("value", "norm", "global-norm")

#: The themes, in the order of the rule book.
THEMES = (
    "formula",
    "exclusion",
    "structure",
    "zero",
    "nonfinite",
    "range",
    "precision",
    "arguments",
    "effects",
    "optimizer",
    "metamorphic",
)

LEVELS = {
    "must": "the documents say it",
    "should": "the documents are silent, and a user is entitled to it",
    "quality": "about accuracy: how near; what no arithmetic of the dtype explains is a failure",
    "unspecified": "nobody defines it: recorded, never judged",
}

_KEYS = {"id", "operations", "level", "statement", "formula", "source"}


@dataclass(frozen=True)
class Source:
    """Where a document says it: at most 15 of its own words, with a gloss where they are not English."""

    document: str
    where: str
    phrase: str
    gloss: str = ""


@dataclass(frozen=True)
class Rule:
    """One thing that one operation does."""

    id: str
    operation: str
    level: str
    statement: str
    #: LaTeX, without dollar signs; empty where words say it all.
    formula: str
    source: tuple[Source, ...]
    theme: str

    @property
    def name(self) -> str:
        """The id without its operation, common to the operations of one entry."""
        return self.id.partition(".")[2]


@cache
def load() -> tuple[Rule, ...]:
    """Every rule, by theme in the order of :data:`THEMES` and in the order of the files.

    Raises
    ------
    ValueError
        When an entry is not well-formed, or an id stands twice.
    """
    rules: dict[str, Rule] = {}
    for theme in THEMES:
        text = files(__name__).joinpath(f"{theme}.toml").read_text(encoding="utf-8")
        for entry in tomllib.loads(text)["rule"]:
            for rule in _rules_of(entry, theme):
                if rule.id in rules:
                    message = f"the rule {rule.id} stands twice, in {rules[rule.id].theme}.toml and in {theme}.toml"
                    raise ValueError(message)
                rules[rule.id] = rule
    return tuple(rules.values())


def _rules_of(entry: Mapping[str, Any], theme: str) -> list[Rule]:
    name = entry.get("id", "(without id)")
    if not {"id", "operations", "level", "statement"} <= entry.keys() <= _KEYS:
        message = f"the rule {name} in {theme}.toml has the keys {sorted(entry)}; those there are: {sorted(_KEYS)}"
        raise ValueError(message)
    if entry["level"] not in LEVELS or not set(entry["operations"]) <= set(OPERATIONS):
        message = (
            f"the rule {name} in {theme}.toml is {entry['level']!r} for {entry['operations']}; "
            f"levels are {list(LEVELS)}, operations {list(OPERATIONS)}"
        )
        raise ValueError(message)
    source = tuple(Source(**each) for each in entry.get("source", ()))
    if (entry["level"] == "must") != bool(source):
        message = (
            f"the rule {name} in {theme}.toml is {entry['level']!r}; a must needs a source, and nothing else has one"
        )
        raise ValueError(message)
    return [
        Rule(
            id=f"{operation}.{name}",
            operation=operation,
            level=entry["level"],
            statement=entry["statement"],
            formula=entry.get("formula", ""),
            source=source,
            theme=theme,
        )
        for operation in OPERATIONS
        if operation in entry["operations"]
    ]
