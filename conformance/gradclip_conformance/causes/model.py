"""Define an explanation, and the cells that are to be explained."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from gradclip_reports.records import Cell
from gradclip_reports.statuses import rank_severity

from ..judge.model import Answer, Context, Verdict

#: Parameters that may differ between the gradients and the cells of one cause.
VARYING = frozenset({"text", "effect"})

#: A cause with the parameters that all its gradients and cells share.
Key = tuple[str, tuple[tuple[str, Any], ...]]


class Basis(StrEnum):
    """What an explanation rests on."""

    #: The answer itself shows the cause: it is an error, has another shape, or is NaN for a special input.
    SHOWN = "shown"
    #: A model predicts the numbers, and takes the rest of the function for right. They may agree by chance.
    PREDICTED = "predicted"
    #: The numbers are only described. The cells of any cause with the same effect show them, too.
    DESCRIBED = "described"


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
    #: Two models may give the same explanation, whatever each rests on.
    basis: Basis = field(default=Basis.SHOWN, compare=False)

    @classmethod
    def of(cls, cause: str, severity: str = "", /, **parameters: Any) -> Explanation:
        """Return an explanation that the answer itself shows, with these parameters."""
        return cls(cause, tuple(sorted(parameters.items())), severity)

    @classmethod
    def predict(cls, cause: str, severity: str = "", /, **parameters: Any) -> Explanation:
        """Return an explanation whose model predicts the numbers."""
        return replace(cls.of(cause, severity, **parameters), basis=Basis.PREDICTED)

    @classmethod
    def describe(cls, cause: str, severity: str = "", /, **parameters: Any) -> Explanation:
        """Return a name for numbers that no model predicts."""
        return replace(cls.of(cause, severity, **parameters), basis=Basis.DESCRIBED)

    @property
    def key(self) -> Key:
        """The cause with the parameters that do not vary."""
        return self.cause, tuple(pair for pair in self.parameters if pair[0] not in VARYING)


def unite(found: Collection[Explanation | None]) -> Explanation | None:
    """Return the common explanation of several gradients, or None if they have different causes."""
    each = [one for one in found if one is not None]
    if not each or len(each) < len(found) or len({one.key for one in each}) > 1:
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
    return replace(Explanation.of(each[0].cause, min(severities, key=rank_severity), **told), basis=each[0].basis)


def combine(found: Collection[Explanation]) -> Explanation:
    """Return the most severe explanation of several gradients. Its field `others` holds the other explanations."""
    worst, *others = sorted(found, key=lambda one: (rank_severity(one.severity), one.cause, str(one.parameters)))
    return replace(worst, others=tuple(others))


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
