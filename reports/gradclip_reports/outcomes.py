"""Turn the planned cells into tests for continuous integration, with the outcomes that CI tools know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .finding_text import write_short_line
from .lines import Cell, Finding, Run
from .statuses import NOT_RUN
from .values import escape_text, format_value, shorten_text

__all__ = ["OUTCOMES", "Outcome", "describe_outcome", "list_outcomes"]

#: A longer reason is cut: a report of tests repeats it for each cell.
DETAIL = 4000

#: The outcome of each status, for a tool with four outcomes. A known failure is skipped, with its reason.
OUTCOMES = {
    "pass": "passed",
    "quality": "passed",
    "documented": "passed",
    "known": "skipped",
    "unsupported": "skipped",
    "unspecified": "skipped",
    "fail": "failed",
    "crash": "error",
    "timeout": "error",
    "error": "error",
    NOT_RUN: "error",
}


class Outcome(NamedTuple):
    """One planned cell."""

    subject: str
    case: str
    status: str
    outcome: str
    message: str
    seconds: float
    #: None if the cell did not run.
    cell: Cell | None
    #: The finding that explains the cell.
    finding: Finding | None = None


def list_outcomes(run: Run) -> Iterator[Outcome]:
    """Yield the cells of a run, then those that did not run."""
    findings = run.map_singles()
    for cell in run.cells:
        finding = findings.get(cell.pair)
        message = escape_text(f"{cell.status}: {shorten_text(cell.detail, DETAIL)}" if cell.detail else cell.status)
        yield Outcome(cell.subject, cell.case, cell.status, OUTCOMES[cell.status], message, cell.seconds, cell, finding)
    for subject, case in run.footer.not_run:
        yield Outcome(subject, case, NOT_RUN, OUTCOMES[NOT_RUN], f"{NOT_RUN}: planned, and did not run", 0.0, None)


def describe_outcome(item: Outcome) -> str:
    """Return the input, the expected and the observed value of a cell, one line each, and its cause."""
    cell = item.cell
    if cell is None:
        return ""
    values = {"input": cell.input, "expected": cell.expected, "observed": cell.observed}
    lines = [f"{name}: {format_value(value)}" for name, value in values.items() if value is not None]
    lines += [f'documented: "{escape_text(cell.quote)}"'] if cell.quote else []
    lines += [f"see: {escape_text(cell.url)}"] if cell.url else []
    lines += [f"finding: {write_short_line(item.finding)}"] if item.finding else []
    return "\n".join(lines)
