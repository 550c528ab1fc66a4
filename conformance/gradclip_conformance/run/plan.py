"""Which cells a run has: every case that speaks of a subject's operation, once for each subject.

A case that a subject cannot take is planned too; its cell says what is missing, so that nothing is invisible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from gradclip_adapters.contract import FEATURES, Subject

from ..cases.model import Case

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
    """Return the cells of a run, subject by subject."""
    chosen = [case for case in cases if selection.holds(case)]
    return [
        PlannedCell(subject, _with_both_bounds(case, subject), _missing(subject, case))
        for subject in subjects
        for case in chosen
        if case.operation == subject.operation
    ]


#: The rule about leaving `min` out, which a subject that requires it cannot be asked.
MIN_LEFT_OUT = "value.min-defaults-to-minus-max"


def _with_both_bounds(case: Case, subject: Subject) -> Case:
    """Return the case with the default of `min` spelled out, for a subject that takes no call without `min`."""
    if "requires_min" not in subject.features or "max" not in case.options or "min" in case.options:
        return case
    return replace(case, options={**case.options, "min": -case.options["max"]})


def _missing(subject: Subject, case: Case) -> str | None:
    dtypes = {gradient.array.dtype for gradient in case.gradients if gradient.array is not None} or {case.dtype}
    if lacking := sorted(dtypes - set(subject.dtypes)):
        return f"{subject.name} declares no dtype {', '.join(lacking)}."
    if lacking := sorted(case.needs - set(subject.features)):
        return f"{subject.name} does not declare: {'; '.join(f'{name} ({FEATURES[name]})' for name in lacking)}."
    if case.rule == MIN_LEFT_OUT and "requires_min" in subject.features:
        return f"{subject.name} takes no call without `min`."
    if case.norm_type not in subject.norm_types:
        return f"{subject.name} declares no norm of the order {case.norm_type:g}."
    return None
