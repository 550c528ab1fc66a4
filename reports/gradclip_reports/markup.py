"""Put untrusted texts into Markdown and HTML, and lay out tables."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Sequence

from .values import escape_line

#: Characters with a meaning inside a line of GitHub Markdown. An ampersand begins an entity.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&])")

#: Characters with a meaning in a text that is already HTML. An underscore inside a word has none.
_SPECIAL_BESIDE_HTML = re.compile(r"[\\`*{}\[\]|~]|(?<!\w)_|_(?!\w)")

#: Characters with a meaning at the beginning of a line: lists, numbered lists, rules, and underlines of headings.
_AT_THE_BEGINNING = re.compile(r"^(\s*)([-+=])|^(\s*\d+)([.)])(?=\s|$)")


def draw_markdown_table(rows: Sequence[Sequence[object]], right: Collection[str] = ()) -> str:
    """Return a table of GitHub Markdown, made from cells that are Markdown.

    Parameters
    ----------
    rows : sequence of sequences
        The cells, row by row; the first row is the head.
    right : collection of str
        The heads of the columns to align at the right, as is usual for numbers.

    Returns
    -------
    str
        The lines of the table, without an end of line after the last.
    """
    head, *body = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([head, "|" + "".join("---:|" if name in right else "---|" for name in rows[0]), *body])


def escape_markdown(text: str) -> str:
    """Return the text on one line, escaped so that Markdown and HTML show it as it is."""
    escaped = _SPECIAL.sub(r"\\\1", escape_line(text))
    return _AT_THE_BEGINNING.sub(lambda found: f"{found[1] or found[3] or ''}\\{found[2] or found[4]}", escaped)


def format_code(text: str, *, in_table: bool = False) -> str:
    """Return the text as a code span on one line."""
    text = escape_line(text)
    if in_table and "|" in text:
        # A bar ends a cell even inside a code span, and a backslash before it may itself be escaped.
        return format_code_in_html(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def format_code_in_html(text: str) -> str:
    """Return the text as an HTML element on one line. Inside Markdown it shows the same text."""
    return f"<code>{escape_html(text)}</code>"


def escape_html(text: str) -> str:
    """Return the text on one line for HTML inside Markdown. The special characters of both become entities."""
    escaped = html.escape(escape_line(text), quote=False)
    return _SPECIAL_BESIDE_HTML.sub(lambda found: f"&#{ord(found[0])};", escaped)
