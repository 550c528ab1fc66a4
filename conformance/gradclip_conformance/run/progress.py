"""Define the interface that a run reports its progress to."""

from __future__ import annotations

from gradclip_reports.records import Cell

from ..judge.model import Description

__all__ = ["Progress"]


class Progress:
    """The receiver of reports about a run; this one ignores them."""

    def started(self, adapter: str, description: Description, planned: int) -> None:
        """Note that an adapter has started, and how many cells are planned."""

    def finished(self, cell: Cell) -> None:
        """Note that a cell is finished."""
