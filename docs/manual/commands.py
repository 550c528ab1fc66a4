"""Keep the line breaks of the examples in the help of commands."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click
    from sphinx.application import Sphinx

__all__ = ["keep_columns", "setup"]


def setup(app: Sphinx) -> dict[str, bool]:
    """Change the help of each command before Sphinx parses it."""
    app.setup_extension("sphinx_click")
    app.connect("sphinx-click-process-description", _replace_description)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _replace_description(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    del app, context
    lines[:] = keep_columns(lines)


def keep_columns(lines: list[str]) -> list[str]:
    """Return the lines. Turn each block that click leaves unwrapped into a literal block.

    sphinx-click marks the lines of such a block by a bar. Sphinx would join their words, and so lose the columns.
    """
    kept: list[str] = []
    for is_marked, group in groupby(lines, lambda line: line.startswith("| ")):
        block = list(group)
        kept += [".. code-block:: text", "", *("    " + line[2:] for line in block), ""] if is_marked else block
    return kept
