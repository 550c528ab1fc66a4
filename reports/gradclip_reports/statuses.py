"""The statuses of a cell, worst first, and how each is shown.

The order is the order of severity: where several cells share a place in a table, the worst one is shown. What spoils
a run comes first; then what differs from the neutral rule with a reason; then what was not judged; `pass` comes last,
so that a place shows as passed only when every cell in it passed.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CELL_STATUSES", "NOT_RUN", "STATUSES", "UNJUDGED", "Status"]


@dataclass(frozen=True)
class Status:
    """A status, its signs, and what it means."""

    name: str
    #: One column wide, told apart without colour.
    glyph: str
    #: For Markdown, where text has no colour of its own.
    emoji: str
    #: A style of rich.
    style: str
    #: Whether a run with such a cell is not as expected.
    spoils: bool
    meaning: str


#: Stands in tables for a cell that was planned and did not run; no record has it.
NOT_RUN = "not-run"

STATUSES: dict[str, Status] = {
    status.name: status
    for status in (
        Status("error", "E", "⚠️", "bold white on magenta", True, "the suite's own fault"),
        Status("crash", "C", "💥", "bold white on red", True, "the framework's process died"),
        Status("timeout", "T", "⏳", "bold white on red", True, "no answer within the time limit"),
        Status("fail", "✗", "❌", "bold red", True, "breaks a rule, and nothing documents it"),
        Status("changed", "Δ", "🔀", "bold yellow", True, "a known deviation that answers otherwise now"),
        Status(NOT_RUN, "∅", "🚫", "bold magenta", True, "planned, and did not run"),
        Status("deviation", "≠", "📌", "yellow", False, "a known failure, pinned with its reason"),
        Status("documented", "§", "📘", "cyan", False, "differs as its own documentation says"),
        Status("quality", "≈", "📐", "blue", False, "right, outside the accuracy budget"),
        Status("unspecified", "?", "❔", "dim", False, "recorded; nobody defines it"),
        Status("unsupported", "–", "➖", "dim", False, "the framework cannot do it"),
        Status("pass", "✓", "✅", "green", False, "agrees with the rule"),
    )
}

#: The statuses of cells about which nothing is said to be right or wrong.
UNJUDGED = frozenset({"unsupported", "unspecified"})

#: The statuses that a record may hold.
CELL_STATUSES = tuple(name for name in STATUSES if name != NOT_RUN)
