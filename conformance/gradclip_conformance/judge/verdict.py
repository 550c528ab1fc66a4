"""What the judge says of one cell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

__all__ = ["SPOILING", "STATUSES", "Verdict"]

STATUSES = (
    "pass",
    "quality",
    "documented",
    "deviation",
    "fail",
    "changed",
    "unsupported",
    "unspecified",
    "crash",
    "timeout",
    "error",
)

#: The statuses by which a run is not as expected.
SPOILING = frozenset({"fail", "changed", "crash", "timeout", "error"})


@dataclass(frozen=True)
class Verdict:
    """A status, and what a reader needs in order to believe it."""

    status: str
    detail: str = ""
    ulp: float | None = None
    expected: Any = None
    observed: Any = None
    quote: str | None = None
    url: str | None = None
    #: The answer in a word of `behaviour`.
    behaviour: str = "none"

    def with_status(self, status: str, **changes: Any) -> Verdict:
        """The same finding under another status."""
        return replace(self, status=status, **changes)
