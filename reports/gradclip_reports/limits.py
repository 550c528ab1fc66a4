"""Parse the JSON of a record, and refuse what would exhaust the memory or stop a report.

A record may come from anybody. The largest published record has 40 million bytes and 3 million values. The lengths of
its names and texts are in the JSON Schemas.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

#: The largest number of bytes in a file.
FILE = 1 << 28
#: The largest number of values in a file: each takes about 100 bytes of memory.
VALUES = 20_000_000
#: The largest number of levels of lists and objects. Reports walk them by recursion, and published records have 6.
DEPTH = 32
#: The largest number of characters in a number. A float64 needs at most 24.
DIGITS = 40
#: The largest number of characters in a text, as in the JSON Schemas.
TEXT = 1 << 16
#: The largest number of characters in a name, as in the JSON Schemas.
NAME = 1 << 9


class OverLimit(ValueError):
    """A record exceeds a limit. The text names the limit."""


def check_limit(what: str, found: int, limit: int) -> None:
    """Refuse more than the limit.

    Raises
    ------
    OverLimit
        If the number found is larger.
    """
    if found > limit:
        message = f"{found} {what}, and the limit is {limit}"
        raise OverLimit(message)


def check_size(content: bytes) -> None:
    """Check the number of bytes in a file, and of values in it.

    Raises
    ------
    OverLimit
        If there are too many.
    """
    check_limit("bytes in one file", len(content), FILE)
    check_limit("values in one file", sum(map(content.count, (b",", b"[", b"{"))), VALUES)


def parse_json(text: str) -> Any:
    """Parse JSON, strictly: no NaN, no number beyond float64, no half of a surrogate pair, and no deep nesting.

    Raises
    ------
    ValueError
        If the text is not such JSON.
    OverLimit
        If it exceeds a limit.
    RecursionError
        If it is nested more deeply than Python can parse.
    """
    value = _DECODER.decode(text)
    # Most lines have too few brackets to be nested too deeply. Examine only the others.
    if text.count("[") + text.count("{") > DEPTH:
        _check_depth(value, DEPTH)
    if "\\ud" in text.lower():
        # Half of a surrogate pair cannot be written. This raises an error that says so.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _check_depth(value: dict[str, Any] | list[Any], levels: int) -> None:
    if not levels:
        message = f"more than {DEPTH} levels of nesting"
        raise OverLimit(message)
    for member in value.values() if isinstance(value, dict) else value:
        if isinstance(member, (dict, list)):
            _check_depth(member, levels - 1)


def _parse_int(digits: str) -> int:
    check_limit("characters in one number", len(digits), DIGITS)
    return int(digits)


def _parse_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        message = f"{shorten(digits, DIGITS)} is beyond the range of float64"
        raise OverLimit(message)
    return number


def _refuse_constant(name: str) -> NoReturn:
    # Python reads NaN and Infinity; JSON has neither.
    message = f"{name} is not a JSON number"
    raise ValueError(message)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_parse_int, parse_float=_parse_float)


def shorten(text: str, length: int) -> str:
    """Return a text, cut if it is too long. The cut text says how long it was."""
    if len(text) <= length:
        return text
    rest = f" ... ({len(text)} characters in all)"
    return text[: max(0, length - len(rest))] + rest
