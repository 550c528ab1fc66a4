"""Load the rule catalogue: each rule as data, from the TOML files in this folder.

Each file holds one theme. Each entry defines one rule for each of its operations: a list of them, or a group. The
groups are `"every"` operation, `"every norm"`, `"every Euclidean norm"`, and `"every but sums"`, whose results have the
form of the gradients. A group leaves out the operations for which another entry defines the rule by name, at another
level. A rule id joins the operation and the name, as in `global-norm.excluded-not-counted`. Ids are never reused.
`python -m gradclip_spec.rules` prints the rule catalogue.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from gradclip_adapters.operations import PREFIXES

__all__ = ["LEVELS", "THEMES", "TITLES", "Rule", "Source", "check_keys", "load"]

#: The themes, in the order of the rule catalogue, with their headings there.
TITLES = {
    "formula": "The formula",
    "exclusion": "Excluded gradients",
    "structure": "Form of the results",
    "zero": "Zeros",
    "nonfinite": "NaN and infinity",
    "range": "Ends of the range",
    "precision": "Accuracy",
    "arguments": "Arguments",
    "effects": "Effects",
    "optimizer": "In an optimizer",
    "metamorphic": "Relations between calls",
    "combinations": "Everything together",
}
THEMES = tuple(TITLES)

LEVELS = {
    "must": "the documents say it",
    "should": "the documents do not say it, but a user can expect it",
    "quality": "about accuracy: an error that the dtype's arithmetic explains is poor, a larger error is a failure",
    "unspecified": "not defined anywhere: recorded, never judged",
}

#: Names of groups of operations. A rule of a group needs cases as soon as an operation is added.
_GROUPS = {
    "every": [*PREFIXES],
    "every norm": [prefix for prefix, operation in PREFIXES.items() if operation.is_by_norm],
    "every Euclidean norm": [
        prefix for prefix, operation in PREFIXES.items() if operation.is_by_norm and operation.norm_type == 2
    ],
    "every but sums": [prefix for prefix, operation in PREFIXES.items() if not operation.sums_examples],
}

_KEYS = {"id", "operations", "level", "statement", "formula", "source"}


@dataclass(frozen=True)
class Source:
    """The place in a document that states a rule.

    A phrase quotes at most 15 words. A gloss translates a phrase that is not English.
    """

    document: str
    where: str
    phrase: str
    gloss: str = ""


@dataclass(frozen=True)
class Rule:
    """A rule that one operation must keep."""

    id: str
    operation: str
    level: str
    statement: str
    #: LaTeX without dollar signs. It is empty when the statement needs no formula.
    formula: str
    source: tuple[Source, ...]
    theme: str

    @property
    def name(self) -> str:
        """Return the id without its operation. All operations of one entry share it."""
        return self.id.partition(".")[2]


@cache
def load() -> tuple[Rule, ...]:
    """Return every rule, by theme in the order of :data:`THEMES`, and by its place in the file.

    Raises
    ------
    ValueError
        If an entry is malformed or an id appears twice.
    """
    made: list[tuple[bool, Rule]] = []
    for theme in THEMES:
        text = files(__name__).joinpath(f"{theme}.toml").read_text(encoding="utf-8")
        for entry in tomllib.loads(text)["rule"]:
            made += [(isinstance(entry["operations"], str), rule) for rule in _make_rules(entry, theme)]
    named = {rule.id for is_of_group, rule in made if not is_of_group}
    rules: dict[str, Rule] = {}
    for is_of_group, rule in made:
        if is_of_group and rule.id in named:
            continue
        if rule.id in rules:
            message = f"the rule {rule.id} appears twice, in {rules[rule.id].theme}.toml and in {rule.theme}.toml"
            raise ValueError(message)
        rules[rule.id] = rule
    return tuple(rules.values())


def _make_rules(entry: Mapping[str, Any], theme: str) -> list[Rule]:
    name = entry.get("id", "(without id)")
    check_keys(entry, _KEYS, {"id", "operations", "level", "statement"}, f"the rule {name} in {theme}.toml")
    named = entry["operations"]
    operations = _GROUPS.get(named, []) if isinstance(named, str) else named
    if entry["level"] not in LEVELS or not operations or not set(operations) <= PREFIXES.keys():
        message = (
            f"the rule {name} in {theme}.toml has level {entry['level']!r} and operations {named}; "
            f"choose from the levels {list(LEVELS)}, the operations {list(PREFIXES)} and the groups {list(_GROUPS)}"
        )
        raise ValueError(message)
    source = tuple(Source(**each) for each in entry.get("source", ()))
    if (entry["level"] == "must") != bool(source):
        message = (
            f"the rule {name} in {theme}.toml has level {entry['level']!r}; "
            "'must' needs a source, other levels take none"
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
        for operation in PREFIXES
        if operation in operations
    ]


def check_keys(entry: Mapping[str, Any], known: set[str], needed: set[str], where: str) -> None:
    """Refuse an entry of a file in this folder that lacks a key, or has an unknown one."""
    if not needed <= entry.keys() <= known:
        message = f"{where} has the keys {sorted(entry)}; known keys are {sorted(known)}"
        raise ValueError(message)
