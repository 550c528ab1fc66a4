"""Define an explanation, and the cells that are to be explained."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gradclip_reports.records import Cell
from gradclip_reports.statuses import rank_severity

from ..judge.model import Answer, Context, Verdict

__all__ = ["VARYING", "Evidence", "Explanation", "Judged", "Suspect", "combine", "unite"]

#: Parameters that may differ between the gradients and the cells of one cause.
VARYING = frozenset({"text", "effect"})


@dataclass(frozen=True)
class Explanation:
    """A cause that reproduces an answer."""

    cause: str
    #: The parameters, sorted by name.
    parameters: tuple[tuple[str, Any], ...] = ()
    #: The severity of this answer if it differs from the severity of the cause. Otherwise it is empty.
    severity: str = ""
    #: The causes that the same answer shows besides this one.
    others: tuple[Explanation, ...] = ()

    @classmethod
    def of(cls, cause: str, severity: str = "", /, **parameters: Any) -> Explanation:
        """Return an explanation with these parameters."""
        return cls(cause, tuple(sorted(parameters.items())), severity)


def unite(found: Collection[Explanation | None]) -> Explanation | None:
    """Return the common explanation of several gradients, or None if they have different causes."""
    each = [one for one in found if one is not None]
    if not each or len(each) < len(found):
        return None
    fixed = {(one.cause, tuple(pair for pair in one.parameters if pair[0] not in VARYING)) for one in each}
    if len(fixed) > 1:
        return None
    values: dict[str, set[Any]] = {}
    for one in each:
        for name, value in one.parameters:
            values.setdefault(name, set()).add(value)
    # A gradient of zeros stays unchanged, whatever happens to the others.
    if "effect" in values and len(values["effect"]) > 1:
        values["effect"] -= {"unchanged", "zeros unchanged"}
    told = {name: next(iter(many)) if len(many) == 1 else " and ".join(sorted(many)) for name, many in values.items()}
    severities = [one.severity for one in each]
    return Explanation.of(each[0].cause, min(severities, key=rank_severity), **told)


def combine(found: Collection[Explanation]) -> Explanation:
    """Return the most severe explanation of several gradients. Its field `others` holds the other explanations."""
    worst, *others = sorted(found, key=lambda one: (rank_severity(one.severity), one.cause, str(one.parameters)))
    return replace(worst, others=tuple(others))


@dataclass(frozen=True)
class Suspect:
    """A cause that an entry point is known to have, with the parameters that its models need."""

    cause: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def get_number(self, name: str) -> float | None:
        """Return a parameter, or None where an entry gives a pattern or several numbers, or no number above zero."""
        number = self.parameters.get(name)
        is_number = isinstance(number, int | float) and 0 < number <= sys.float_info.max
        return float(number) if is_number else None  # type: ignore[arg-type]


@dataclass(frozen=True)
class Judged:
    """One cell that did not pass."""

    context: Context
    answers: Sequence[Answer]
    verdict: Verdict
    #: The explanation, if it was found when the cell was judged.
    explanation: Explanation | None = None
    #: Whether a known failure names the cause of the explanation.
    is_known_cause: bool = False
    #: A hash of the answers, if they are too large to be kept.
    digest: int | None = None


@dataclass(frozen=True)
class Evidence:
    """A wrong cell, with the answers, which the record does not hold in full."""

    judged: Judged
    cell: Cell
    #: The bytes of the gradients that were passed.
    size: int = 0
