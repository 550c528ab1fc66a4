"""Name the statuses of a cell, worst first, and say how each is shown.

The order is the order of severity: if several cells share a place in a table, the worst one is shown. First come the
statuses that fail a run. Then come differences from the neutral rule that have a reason. Then come the statuses of
cells that were not judged. `pass` comes last, so a place is shown as passed only if every cell in it passed.
"""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """A status, with its signs and its meaning. Records hold its text."""

    #: A sign one character wide. It differs from the other signs even without colour.
    glyph: str
    #: A sign for Markdown, where text has no colour.
    emoji: str
    #: A style of rich.
    style: str
    #: Whether a cell with this status fails its run.
    spoils: bool
    meaning: str

    def __new__(cls, text: str, glyph: str, emoji: str, style: str, spoils: bool, meaning: str) -> Status:
        status = str.__new__(cls, text)
        status._value_ = text
        status.glyph, status.emoji, status.style = glyph, emoji, style
        status.spoils, status.meaning = spoils, meaning
        return status

    ERROR = "error", "E", "⚠️", "bold white on magenta", True, "a fault of the adapter or of the suite"
    CRASH = "crash", "C", "💥", "bold white on red", True, "the framework's process died"
    TIMEOUT = "timeout", "T", "⏳", "bold white on red", True, "no answer within the time limit"
    FAIL = "fail", "✗", "❌", "bold red", True, "breaks a rule, and nothing documents it"
    #: Tables show this status for a planned cell that did not run. No record holds this status.
    NOT_RUN = "not-run", "∅", "🚫", "bold magenta", True, "planned, and did not run"
    KNOWN = "known", "≠", "📌", "yellow", False, "a known failure, recorded with its reason"
    DOCUMENTED = "documented", "§", "📘", "cyan", False, "differs as its documentation or its adapter says"
    QUALITY = "quality", "≈", "📐", "blue", False, "poor, not right: the dtype's arithmetic explains the answer"
    UNSPECIFIED = "unspecified", "?", "❔", "dim", False, "recorded; the right answer is not defined"
    UNSUPPORTED = "unsupported", "–", "➖", "dim", False, "cannot be tested"
    PASS = "pass", "✓", "✅", "green", False, "agrees with the rule"


NOT_RUN = Status.NOT_RUN

#: The statuses by their texts in records.
STATUSES: dict[str, Status] = {status.value: status for status in Status}

#: The statuses that fail a run.
SPOILING = frozenset(status for status in Status if status.spoils)

#: The statuses of cells that are judged neither right nor wrong.
UNJUDGED = frozenset({Status.UNSUPPORTED, Status.UNSPECIFIED})

#: The word that stands for the cause if no cause in the catalogue explains a finding.
UNEXPLAINED = "unexplained"

#: The statuses of cells in which something differs from the rule.
DIFFERING = SPOILING | {Status.KNOWN, Status.DOCUMENTED, Status.QUALITY}

#: The words that records use for what an `unsupported` cell lacks, and their meanings.
LACKS = {
    "interface": "no such interface",
    "kernel": "no kernel in this build",
    "adapter": "limit of the adapter",
    "declaration": "not declared, although a call works",
}

#: The statuses that a record may hold.
CELL_STATUSES = tuple(status.value for status in Status if status is not NOT_RUN)

#: The severities of findings, worst first.
SEVERITIES = ("destroyed", "unclipped", "wrong", "silent", "refused", "form", "rounding")


def rank_severity(severity: str) -> int:
    """Return the place of a severity, worst first. An unknown one comes last: records may name other severities."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)
