"""Render a report in any format, given by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .badge import badge
from .ctrf import ctrf
from .junit import junit
from .lines import Run
from .markdown import markdown
from .summary import summary

__all__ = ["FORMATS", "render"]


def _render_terminal(runs: Sequence[Run]) -> str:
    # Import this only here, because rich is in the extra `check`, and the other formats do not need it.
    from .terminal import terminal

    return terminal(runs)


_RENDERERS: Mapping[str, Callable[[Sequence[Run]], str]] = {
    "terminal": _render_terminal,
    "json": summary,
    "markdown": markdown,
    "junit": junit,
    "ctrf": ctrf,
    "badge": badge,
}

FORMATS = tuple(_RENDERERS)


def render(runs: Sequence[Run], format: str) -> str:
    """Return the report of one or several runs.

    Parameters
    ----------
    runs
        One run is shown with a column for each subject; several, with a column for each run.
    format
        One of `FORMATS`. `terminal` is text for 80 columns without colour; for colours and other widths see
        :func:`gradclip_reports.terminal.report`.

    Raises
    ------
    ValueError
        If there is no run, or if there is no such format.
    """
    if format not in _RENDERERS:
        message = f"There is no format {format!r}: choose one of {', '.join(FORMATS)}."
        raise ValueError(message)
    if not runs:
        message = "There is no run to report: read at least one record."
        raise ValueError(message)
    return _RENDERERS[format](runs)
