"""Values and texts of a record, in a form to read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["cells", "plain", "readable", "shortened"]

_HEX_FLOAT = re.compile(r"[-+]?0x[0-9a-f]+(\.[0-9a-f]+)?p[-+]?\d+", re.IGNORECASE)

#: A list longer than this is shown by its beginning and its length.
_ITEMS = 8


def plain(text: str) -> str:
    """The text with what no terminal and no XML may hold as escapes; line breaks stay.

    Frameworks put colour codes and worse into the messages of their exceptions.
    """
    return "".join(
        character
        if character.isprintable() or character == "\n"
        else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )


def cells(count: int) -> str:
    """The count with its noun."""
    return f"{count} cell" if count == 1 else f"{count} cells"


def shortened(text: str, length: int) -> str:
    """The beginning of a text that is too long, and how much is left out."""
    if len(text) <= length:
        return text
    return f"{text[:length]} ... ({len(text) - length} characters more)"


def readable(value: Any) -> str:
    """An expected or observed value on one line.

    Hexadecimal floats become the shortest decimal that reads back as the same float64.
    """
    if isinstance(value, str):
        return plain(repr(float.fromhex(value)) if _HEX_FLOAT.fullmatch(value) else value.replace("\n", " "))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{plain(str(name))}: {readable(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        items = [readable(item) for item in value[:_ITEMS]]
        more = [f"... {len(value)} in all"] if len(value) > _ITEMS else []
        return "[" + ", ".join(items + more) + "]"
    return json.dumps(value)
