"""Which cells a run has: every case that speaks of a subject's operation, once for each subject.

A case that a subject cannot take is planned too; its cell says what is missing, so that nothing is invisible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gradclip_adapters.contract import FEATURES, Subject

from .case import Case

__all__ = ["PlannedCell", "Selection", "plan_cells"]


@dataclass(frozen=True)
class Selection:
    """What of all cells a run is narrowed to; empty fields narrow nothing."""

    operations: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()

    def holds(self, case: Case) -> bool:
        """Whether a case is selected: rules and cases are shell patterns, matched against their ids."""
        return (
            (not self.operations or case.operation in self.operations)
            and (not self.dtypes or case.dtype in self.dtypes)
            and (not self.rules or any(fnmatchcase(case.rule, p) or fnmatchcase(case.id, p) for p in self.rules))
            and (not self.cases or case.id in self.cases)
        )


@dataclass(frozen=True)
class PlannedCell:
    """One case for one subject; `missing` says why it cannot be asked, if it cannot."""

    subject: Subject
    case: Case
    missing: str | None


def plan_cells(subjects: Sequence[Subject], cases: Iterable[Case], selection: Selection) -> list[PlannedCell]:
    """The cells of a run, subject by subject."""
    chosen = [case for case in cases if selection.holds(case)]
    return [
        PlannedCell(subject, case, _missing(subject, case))
        for subject in subjects
        for case in chosen
        if case.operation == subject.operation
    ]


def _missing(subject: Subject, case: Case) -> str | None:
    dtypes = {gradient.array.dtype for gradient in case.gradients if gradient.array is not None} or {case.dtype}
    if lacking := sorted(dtypes - set(subject.dtypes)):
        return f"{subject.name} declares no dtype {', '.join(lacking)}."
    if lacking := sorted(case.needs - set(subject.features)):
        return f"{subject.name} does not declare: {'; '.join(f'{name} ({FEATURES[name]})' for name in lacking)}."
    if case.norm_type not in subject.norm_types:
        return f"{subject.name} declares no norm of the order {case.norm_type:g}."
    return None
