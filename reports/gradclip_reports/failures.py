"""Group the failures of a run, so that a report shows each fault only once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .lines import Cell, Header, Run
from .statuses import STATUSES, Status
from .values import format_value, group_by, shorten_text


@dataclass(frozen=True)
class FailureGroup:
    """Cells that fail a run, with one rule and one status. Entry points share a group if their details agree."""

    header: Header
    cells: tuple[Cell, ...]

    @property
    def entry_points(self) -> dict[str, int]:
        """Return how many of the cells each entry point has."""
        return dict(Counter(cell.subject for cell in self.cells))

    @property
    def status(self) -> Status:
        """Return the status of the cells."""
        return STATUSES[self.first.status]

    @property
    def first(self) -> Cell:
        """Return the first cell, which reports show in full."""
        return self.cells[0]


@dataclass(frozen=True)
class NotRun:
    """The number of cells of each rule that were planned for one entry point and did not run."""

    header: Header
    entry_point: str
    rules: dict[str, int]

    @property
    def total(self) -> int:
        """Return how many cells did not run."""
        return sum(self.rules.values())


def group_failures(runs: Sequence[Run]) -> list[FailureGroup]:
    """Return the groups, run by run. In each run, the worst group comes first.

    The cells of a group have the same rule, entry point and status, so that a crash hides no wrong answer. Groups of
    different entry points are merged if their first cells have the same rule, status and detail.
    """
    severity = list(STATUSES)
    groups = []
    for run in runs:
        spoiling = [cell for cell in run.cells if STATUSES[cell.status].spoils]
        told = group_by(lambda cell: (cell.rule, cell.subject, cell.status), spoiling).values()
        same = group_by(lambda cells: (cells[0].rule, cells[0].status, cells[0].detail), told).values()
        merged = [FailureGroup(run.header, tuple(cell for cells in alike for cell in cells)) for alike in same]
        groups += sorted(merged, key=lambda group: severity.index(group.status))
    return groups


def leave_out_findings(run: Run) -> Run:
    """Return a run without the cells that its findings explain.

    An error of the suite or of an adapter is not a finding, and older records have no findings.
    """
    explained = {pair for one in run.findings for pair in one.pairs}
    return replace(run, cells=tuple(cell for cell in run.cells if cell.pair not in explained))


def group_not_run(runs: Sequence[Run]) -> list[NotRun]:
    """Return the cells that did not run, by run and entry point."""
    return [
        NotRun(run.header, entry_point, dict(Counter(case.partition("/")[0] for _, case in pairs)))
        for run in runs
        for entry_point, pairs in group_by(lambda pair: pair[0], run.footer.not_run).items()
    ]


def list_values(cell: Cell, length: int) -> list[tuple[str, str]]:
    """Return the names and the texts of the input, the expected and the observed value. Longer texts are cut."""
    values = [(name, getattr(cell, name)) for name in ("input", "expected", "observed")]
    return [(name, shorten_text(format_value(value), length)) for name, value in values if value is not None]
