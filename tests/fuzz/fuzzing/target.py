"""What a fuzz target is, and the list of all targets."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis.strategies import SearchStrategy

__all__ = ["NAMES", "Find", "Target", "load_target", "require"]

#: One module of `fuzzing.targets` each, in the order in which they take turns.
NAMES = (
    "answers",
    "greetings",
    "calls",
    "records",
    "scripts",
    "known_files",
    "own_files",
    "command_line",
    "reference",
    "scripted_host",
    "plain_functions",
)


class Find(AssertionError):
    """What a target looks for; the text says what is wrong."""


@dataclass(frozen=True)
class Target:
    """One door through which data comes from outside."""

    #: Draws examples: JSON values.
    examples: SearchStrategy[Any]
    #: Raises what is not documented, and `Find` where the outcome is wrong.
    check: Callable[[Any], None]
    #: How many examples a turn has: a few seconds of them.
    turn: int = 100


def require(condition: object, text: str) -> None:
    """Raise a find unless the condition holds."""
    if not condition:
        raise Find(text[:2000])


@cache
def load_target(name: str) -> Target:
    """Return the target of a name."""
    target: Target = importlib.import_module(f"fuzzing.targets.{name}").TARGET
    return target
