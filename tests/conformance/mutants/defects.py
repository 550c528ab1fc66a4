"""List the mutants, one of each kind for each operation, with the causes that their findings may name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from .table import WRONG, Wrong

__all__ = ["Defect", "list_defects", "load_written_causes"]


@dataclass(frozen=True)
class Defect:
    """A mutant of one operation, and the causes of its defect."""

    wrong: Wrong
    #: The rules that must catch the function.
    rules: tuple[str, ...]
    #: The defect that was written into the function, and other causes that describe the same answers.
    causes: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the name of the function and its operation."""
        return f"{type(self.wrong.function).__name__} ({self.wrong.operation})"


@cache
def load_written_causes() -> Mapping[str, tuple[str, ...]]:
    """Return the causes of each class of mutants, from `causes.toml`."""
    document = tomllib.loads((Path(__file__).parent / "causes.toml").read_text(encoding="utf-8"))
    return {name: tuple(causes) for module in document.values() for name, causes in module.items()}


def list_defects() -> list[Defect]:
    """Return every mutant once for each operation, with the dtypes of all its rules."""
    groups: dict[tuple[str, str], list[Wrong]] = {}
    for wrong in WRONG:
        groups.setdefault((type(wrong.function).__name__, wrong.operation), []).append(wrong)
    return [
        Defect(
            replace(same[0], dtypes=tuple(dict.fromkeys(dtype for wrong in same for dtype in wrong.dtypes))),
            tuple(wrong.rule for wrong in same),
            load_written_causes()[name],
        )
        for (name, _), same in groups.items()
    ]
