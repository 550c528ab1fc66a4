"""Who is told how a run goes on."""

from __future__ import annotations

from gradclip_reports.records import Cell

from ..judge.answers import Description

__all__ = ["Progress"]


class Progress:
    """Told how a run goes on; does nothing."""

    def started(self, adapter: str, description: Description, planned: int) -> None:
        """Note that an adapter has started, and how many cells are planned."""

    def finished(self, cell: Cell) -> None:
        """Note that a cell is known."""
