"""Fit texts into the width of a terminal, and colour them."""

from __future__ import annotations

import os
import shutil
import textwrap
import unicodedata
from typing import TextIO

#: A narrower terminal gets lines of this width, because tables and commands need it.
_LEAST = 60

#: While a text is wrapped, this character follows each wide character, so that every column has one character. No
#: report contains it, because reports escape control characters.
_SECOND_COLUMN = "\0"

_CODES = {"bold": "1", "dim": "2", "red": "31", "yellow": "33", "good": "1;32", "bad": "1;31"}


def find_width() -> int:
    """Return the number of columns to fill: those of the terminal, or 80."""
    return max(_LEAST, shutil.get_terminal_size((80, 24)).columns)


def uses_color(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that shows colours, and the user wants them (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str) -> str:
    """Return a text with the escape codes of a style. An empty style changes nothing."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style and text else text


def _widen(text: str) -> str:
    if text.isascii():
        return text
    return "".join(
        character + _SECOND_COLUMN if unicodedata.east_asian_width(character) in "WF" else character
        for character in text
    )


def wrap_text(text: str, width: int, first: str = "", rest: str = "", *, break_words: bool = True) -> list[str]:
    """Return the lines of a text.

    Parameters
    ----------
    text
        The text.
    width
        The largest number of columns of a line.
    first
        The beginning of the first line.
    rest
        The beginning of the other lines.
    break_words
        Whether a word that is longer than a line is broken. Chinese has no spaces and is always broken.
    """
    wide = _widen(text)
    lines = textwrap.wrap(
        wide,
        # A break between both columns of a character makes a line one column longer.
        width - (len(wide) > len(text)),
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        break_long_words=break_words or len(wide) > len(text),
    )
    return [line.replace(_SECOND_COLUMN, "") for line in lines] or [first.rstrip()]


def shorten_line(text: str, width: int) -> str:
    """Return a text that fits into a line. A longer one is cut between two words, and ends in dots."""
    wide = _widen(text)
    if len(wide) <= width:
        return text
    kept = wide[: width - 3]
    space = kept.rfind(" ")
    # A word that fills half of the line is cut.
    kept = kept[: space if space > width // 2 else width - 4]
    return f"{kept.replace(_SECOND_COLUMN, '').rstrip(' ,;:.(')} ..."
