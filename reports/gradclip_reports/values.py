"""Show the values and texts of a record in a readable form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

_HEX_FLOAT = re.compile(r"[-+]?0x[0-9a-f]+(\.[0-9a-f]+)?p[-+]?\d+", re.IGNORECASE)

_NARROW: Mapping[str, type[np.float16 | np.float32]] = {"float16": np.float16, "float32": np.float32}

#: Characters that may not be printable. JSON itself escapes all but one of the control characters of ASCII.
_BEYOND_ASCII = re.compile(r"[^\x00-\x7e]")

#: A list longer than this is shown by its beginning and its length.
_ITEMS = 8

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def escape_text(text: str) -> str:
    """Return the text with escapes for characters that are unsafe in a terminal or in XML. Line breaks stay.

    Frameworks put colour codes and other control characters into the messages of their exceptions. Characters that
    reverse the direction of a line, or that only some programs read as line breaks, are escaped, too.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character == "\n"
        else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )


def write_json(document: Any, indent: int | None = None) -> str:
    """Return a document as JSON that is safe in a terminal: characters that are not printable become JSON escapes."""
    text = json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    return _BEYOND_ASCII.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


def escape_line(text: str) -> str:
    """Return the text on one line, with escapes for what is not printable. Line breaks become spaces."""
    return escape_text(text).replace("\n", " ")


def group_by(key: Callable[[Item], Key], items: Iterable[Item]) -> dict[Key, list[Item]]:
    """Return the items of each key, in the order in which the keys first occur."""
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def format_count(count: int, noun: str) -> str:
    """Return the count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def shorten_text(text: str, length: int) -> str:
    """Return a text. If it is too long, return its beginning and the length of the rest."""
    if len(text) <= length:
        return text
    return f"{text[:length]} ... ({len(text) - length} characters more)"


def format_value(value: Any) -> str:
    """Return an input, expected or observed value on one line.

    A hexadecimal float becomes the shortest decimal that reads back as the same number in the dtype of its array.
    Outside an array, that dtype is float64. An array (an object with members "dtype" and "shape") is written as
    `float32[2] [3.0, 4.0]`.
    """
    return _show(value, "float64")


def _show(value: Any, dtype: str) -> str:
    if isinstance(value, str):
        return _format_decimal(value, dtype) if is_hex_float(value) else escape_line(value)
    if _is_array(value):
        return _format_array(value)
    if isinstance(value, Mapping) and list(value) == ["array"]:
        return _show(value["array"], dtype)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{escape_line(str(name))}: {_show(item, dtype)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return _list(value, len(value), dtype)
    return json.dumps(value)


def is_hex_float(text: str) -> bool:
    """Return whether a text is a hexadecimal float within the range of float64."""
    if not _HEX_FLOAT.fullmatch(text):
        return False
    try:
        float.fromhex(text)
    except (OverflowError, ValueError):
        return False
    return True


def _is_array(value: Any) -> bool:
    if not (
        isinstance(value, Mapping) and isinstance(value.get("dtype"), str) and isinstance(value.get("shape"), list)
    ):
        return False
    values = value.get("values", [])
    return isinstance(values, list) and isinstance(value.get("elements", len(values)), int)


def _format_array(array: Mapping[str, Any]) -> str:
    values = array.get("values", ())
    listed = _list(values, array.get("elements", len(values)), array["dtype"])
    shape = _show(array["shape"], "")
    others = {name: item for name, item in array.items() if name not in ("dtype", "shape", "values", "elements")}
    return " ".join([f"{escape_line(array['dtype'])}{shape}", listed, *([format_value(others)] if others else [])])


def _list(values: Sequence[Any], total: int, dtype: str) -> str:
    items = [_show(item, dtype) for item in values[:_ITEMS]]
    return "[" + ", ".join(items + ([f"... {total} in all"] if total > len(items) else [])) + "]"


def _format_decimal(hexadecimal: str, dtype: str) -> str:
    number = float.fromhex(hexadecimal)
    if dtype not in _NARROW:
        return repr(number)
    with np.errstate(over="ignore"):
        narrow = _NARROW[dtype](number)
    # Shorten only values that the dtype holds, because the printed text must read back as the recorded value.
    return str(narrow) if float(narrow) == number else repr(number)
