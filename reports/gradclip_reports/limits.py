"""Define the limits of a record, and check them before anything large is parsed or drawn.

The largest published record has 10 thousand cells, lines of 16 thousand characters and texts of 500.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NoReturn

__all__ = ["LIMITS", "Limit", "OverLimit", "check_line", "count_values", "parse_json", "shorten"]


class OverLimit(ValueError):
    """A record exceeds a limit. The text names the limit."""


@dataclass(frozen=True)
class Limit:
    """The largest number of something that a record may hold."""

    what: str
    number: int
    reason: str

    def check(self, found: int) -> None:
        """Refuse more than the limit.

        Raises
        ------
        OverLimit
            If the number found is larger.
        """
        if found > self.number:
            msg = f"{found} {self.what}, and the limit is {self.number} ({self.reason})"
            raise OverLimit(msg)


LIMITS: Mapping[str, Limit] = {
    "file": Limit("bytes in one record", 1 << 28, "the whole record is kept in memory while it is checked"),
    "line": Limit(
        "bytes in one line", 1 << 24, "a line is parsed as a whole; a footer names each cell that did not run"
    ),
    "values": Limit("values in one line", 500_000, "each takes about 100 bytes of memory"),
    "all-values": Limit(
        "values in one record", 10_000_000, "each takes about 100 bytes of memory; published records have 230,000"
    ),
    "depth": Limit("levels of nesting", 32, "reports walk them by recursion; published records have 6"),
    "digits": Limit("characters in one number", 40, "a float64 needs at most 24"),
    "text": Limit("characters in one text", 1 << 16, "reports wrap and escape every character"),
    "name": Limit("characters in one name", 1 << 9, "names are headings of tables and parts of identifiers"),
    "axes": Limit("axes in one shape", 64, "NumPy allows no more"),
    "subjects": Limit("subjects in one run", 256, "each is a column of a table"),
    "cells": Limit("cells in one run", 200_000, "each is a test of a report"),
    "findings": Limit("findings in one run", 10_000, "each is a block of a report"),
    "runs": Limit("runs in one record", 256, "each is a column of a table"),
}

#: These members of header and cell are names. Names identify things, and head the columns of tables.
NAMES = ("adapter", "subject", "rule", "case", "theme", "dtype", "name", "version", "behaviour", "cause", "severity")

#: Texts of this length are within every limit.
_SHORT = LIMITS["name"].number

_NUMBERS = frozenset({int, float, bool, type(None)})

#: Everything in JSON but the brackets outside texts. The pattern is possessive, because a backtracking pattern keeps a
#: hundred bytes for each character of a text.
_NO_BRACKETS = re.compile(r'(?:"(?:[^"\\]++|\\.)*+"|[^]\[{}"]++)++')


def check_line(line: str) -> None:
    """Check one line before it is parsed: its length, its number of values, and the depth of its nesting.

    Raises
    ------
    OverLimit
        If it exceeds a limit.
    """
    LIMITS["line"].check(len(line))
    values, depth = LIMITS["values"], LIMITS["depth"]
    # No line has more values than characters, and most lines are short. Count only the values of the others.
    if len(line) > values.number:
        values.check(count_values(line))
    # Most lines have too few brackets to be nested too deeply. Examine only the others.
    if line.count("[") + line.count("{") > depth.number:
        depth.check(_measure_depth(line))


def count_values(text: str) -> int:
    """Return an upper bound of the number of values in JSON."""
    return text.count(",") + text.count("[") + text.count("{")


def _measure_depth(line: str) -> int:
    """Return how deeply the brackets outside texts are nested."""
    brackets = _NO_BRACKETS.sub("", line)
    return max(accumulate(1 if bracket in "[{" else -1 for bracket in brackets), default=0)


def parse_json(line: str) -> Any:
    """Parse one line of JSON, strictly: no NaN, no key twice, and nothing that exceeds a limit.

    Raises
    ------
    ValueError
        If the line is not such JSON.
    OverLimit
        If it exceeds a limit.
    """
    check_line(line)
    members = _DECODER.decode(line)
    if not _has_short_texts(line):
        _check_texts(members)
    return members


def _parse_int(digits: str) -> int:
    LIMITS["digits"].check(len(digits))
    return int(digits)


def _parse_float(digits: str) -> float:
    LIMITS["digits"].check(len(digits))
    number = float(digits)
    if math.isinf(number):
        msg = f"{digits} is beyond the range of float64"
        raise OverLimit(msg)
    return number


def _refuse_constant(name: str) -> NoReturn:
    # Python reads NaN and Infinity; JSON has neither.
    msg = f"{name} is not a JSON number"
    raise ValueError(msg)


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of its members. Refuse a key that occurs twice, and lists that are too long."""
    members = dict(pairs)
    if len(members) != len(pairs):
        # Readers disagree about which value of a repeated key counts.
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        msg = f"the key {twice[:100]!r} occurs twice in one object"
        raise ValueError(msg)
    if "shape" in members and isinstance(members["shape"], list):
        LIMITS["axes"].check(len(members["shape"]))
    if "subjects" in members and isinstance(members["subjects"], list):
        LIMITS["subjects"].check(len(members["subjects"]))
    return members


_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_int=_parse_int, parse_float=_parse_float, object_pairs_hook=_make_object
)


def _has_short_texts(line: str) -> bool:
    """Return whether a glance at a line of JSON shows that each text in it is within the limits.

    Without backslashes, each quotation mark begins or ends a text, and no escape makes half of a surrogate pair. A text
    that is too long holds one of the places that are examined here, because they lie so close to one another.
    """
    if "\\" in line or not line.isascii():
        return False
    places = range(0, len(line), _SHORT + 1)
    return all(line.find('"', place) - line.rfind('"', 0, place) <= _SHORT + 1 for place in places)


def _check_texts(value: Any, name: str = "") -> None:
    """Check the length of each text in a parsed line, and whether it can be encoded.

    Raises
    ------
    OverLimit
        If one exceeds a limit.
    """
    if isinstance(value, str):
        _check_text(value, name)
    elif isinstance(value, dict):
        for key, member in value.items():
            _check_text(key, "name")
            # Most members are numbers. Do not call a function for each.
            if type(member) not in _NUMBERS:
                _check_texts(member, key)
    elif isinstance(value, list):
        for member in value:
            if type(member) not in _NUMBERS:
                _check_texts(member, name)


def _check_text(text: str, name: str) -> None:
    if len(text) > _SHORT:
        LIMITS["name" if name in NAMES else "text"].check(len(text))
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        msg = "a text holds half of a surrogate pair, which UTF-8 cannot encode"
        raise OverLimit(msg)


def shorten(text: str, length: int) -> str:
    """Return a text, cut if it is too long. The cut text says how long it was."""
    if len(text) <= length:
        return text
    rest = f" ... ({len(text)} characters in all)"
    return text[: max(0, length - len(rest))] + rest
