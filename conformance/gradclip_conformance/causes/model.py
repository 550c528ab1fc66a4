"""Define an explanation, and the cells that are to be explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradclip_reports.records import Cell

from ..judge.model import Answer, Context, Verdict

__all__ = ["Evidence", "Explanation", "Judged"]


@dataclass(frozen=True)
class Explanation:
    """A cause that reproduces an answer."""

    cause: str
    #: Sorted by name.
    parameters: tuple[tuple[str, Any], ...] = ()
    #: What became of the gradients, if that makes it worse than the cause's own severity.
    severity: str = ""

    @classmethod
    def of(cls, cause: str, severity: str = "", /, **parameters: Any) -> Explanation:
        """Return an explanation with these parameters."""
        return cls(cause, tuple(sorted(parameters.items())), severity)


@dataclass(frozen=True)
class Judged:
    """One cell that did not pass."""

    context: Context
    answers: Sequence[Answer]
    verdict: Verdict


@dataclass(frozen=True)
class Evidence:
    """A cell that is not right, with the answers that the record does not hold."""

    judged: Judged
    cell: Cell
