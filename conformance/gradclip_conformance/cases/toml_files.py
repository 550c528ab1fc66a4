"""Read TOML files. An error names the file, the entry and the field."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradclip_reports.schema import find_violation

#: The largest size of a file. No file written by hand is longer. Our longest file has 60 kB.
LONGEST_FILE = 10_000_000
SHOWN_CHARACTERS = 200
#: A key has at most this many parts. `tomllib` takes quadratic time for a key of many parts: a minute for 100 kB.
#: The patterns are possessive, so that the search for such a key takes linear time.
KEY_PARTS = 64
_LONG_KEY = re.compile(rf"""(?<![\w"'-])(?:(?:"[^"\n]*+"|'[^'\n]*+'|[\w-]++)[ \t]*+\.[ \t]*+){{{KEY_PARTS}}}""")


def read_toml(path: Path) -> dict[str, Any]:
    """Return the document of a file.

    Raises
    ------
    ValueError
        If the file cannot be read, is too long, or is not TOML; the text names the file.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(LONGEST_FILE + 1)
        text = content.decode("utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path.name} cannot be read: {error}"
        raise ValueError(msg) from error
    if len(content) > LONGEST_FILE:
        msg = f"{path.name} is longer than {LONGEST_FILE:,} bytes."
        raise ValueError(msg)
    return parse_toml(text, path.name)


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Return the document of a text. Errors use the name of its file.

    Raises
    ------
    ValueError
        If the text is not TOML; the message names the file.
    """
    if _LONG_KEY.search(text):
        msg = f"{name} has a key of more than {KEY_PARTS} parts."
        raise ValueError(msg)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"{name} is not TOML: {shorten(str(error))}"
        raise ValueError(msg) from error


def check_document(document: dict[str, Any], schema: Path, name: str) -> None:
    """Check a document against a JSON Schema.

    Raises
    ------
    ValueError
        If it violates the schema; the text names the file, the entry and the field.
    """
    if violation := find_violation(document, schema):
        msg = f"{name} is invalid: {violation}"
        raise ValueError(msg)


@contextmanager
def add_place_to_errors(where: str) -> Iterator[None]:
    """Add the place, such as a file and an entry, to the text of an error in the block."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        msg = f"{where}: {shorten(missing)}"
        raise ValueError(msg) from error


def shorten(text: str) -> str:
    """Return a text. Cut it if it quotes too much of a file."""
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]} ..."
