"""Render a report in any format, given by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .junit import draw_junit
from .lines import Run
from .markdown import draw_markdown
from .summary import draw_summary


def _render_terminal(runs: Sequence[Run]) -> str:
    # Import this only here, because rich is in the extra `check`, and the other formats do not need it.
    from .terminal import draw_terminal

    return draw_terminal(runs)


_RENDERERS: Mapping[str, Callable[[Sequence[Run]], str]] = {
    "terminal": _render_terminal,
    "json": draw_summary,
    "markdown": draw_markdown,
    "junit": draw_junit,
}

FORMATS = tuple(_RENDERERS)


def render(runs: Sequence[Run], format: str) -> str:
    """Return the report of one or several runs.

    Parameters
    ----------
    runs
        The table of one run has a column for each entry point. The table of several runs has a column for each run.
    format
        One of `FORMATS`. `terminal` is text for 80 columns without colour; for colours and other widths see
        :func:`gradclip_reports.terminal.draw_terminal`.

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
