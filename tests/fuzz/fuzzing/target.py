"""Define fuzz targets, and list them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis.strategies import SearchStrategy

__all__ = ["NAMES", "Find", "Target", "load_target", "require"]

#: The modules of `fuzzing.targets`.
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
    """A failure that a target has found. The text says what is wrong."""


@dataclass(frozen=True)
class Target:
    """A function that takes data from outside."""

    #: The strategy that draws examples, which are JSON values.
    examples: SearchStrategy[Any]
    #: The function that checks one example. It catches documented errors only, and raises `Find` for a wrong outcome.
    check: Callable[[Any], None]


def require(condition: object, text: str) -> None:
    """Raise `Find` unless the condition holds."""
    if not condition:
        raise Find(text[:2000])


@cache
def load_target(name: str) -> Target:
    """Return the target that has a name."""
    target: Target = importlib.import_module(f"fuzzing.targets.{name}").TARGET
    return target
