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
from typing import Any, NoReturn

__all__ = ["LIMITS", "Limit", "OverLimit", "check_line", "check_members", "count_values", "parse_json", "shorten"]


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

#: The pattern is possessive, because a backtracking pattern keeps a hundred bytes for each character of a text.
_TEXT_IN_JSON = re.compile(r'"(?:[^"\\]++|\\.)*+"')


def check_line(line: str) -> None:
    """Check one line before it is parsed: its length, its number of values, and the depth of its nesting.

    Raises
    ------
    OverLimit
        If it exceeds a limit.
    """
    LIMITS["line"].check(len(line))
    LIMITS["values"].check(count_values(line))
    limit = LIMITS["depth"]
    # Most lines have too few brackets to be nested too deeply. Examine only the others.
    if line.count("[") + line.count("{") > limit.number:
        limit.check(_measure_depth(line))


def count_values(line: str) -> int:
    """Return an upper bound of the number of values in a line of JSON."""
    return line.count(",") + line.count("[") + line.count("{")


def _measure_depth(line: str) -> int:
    """Return how deeply the brackets outside texts are nested."""
    depth = deepest = 0
    for character in _TEXT_IN_JSON.sub("", line):
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def parse_json(line: str) -> Any:
    """Parse one line of JSON, strictly: no NaN, no key twice, no number that is too long.

    Raises
    ------
    ValueError
        If the line is not such JSON.
    OverLimit
        If it exceeds a limit.
    """
    check_line(line)
    members = json.loads(
        line,
        parse_constant=_refuse_constant,
        parse_int=_parse_int,
        parse_float=_parse_float,
        object_pairs_hook=_refuse_duplicates,
    )
    check_members(members)
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


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Readers disagree about which value of a repeated key counts.
    members = dict(pairs)
    if len(members) != len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        msg = f"the key {twice[:100]!r} occurs twice in one object"
        raise ValueError(msg)
    return members


def check_members(members: Any, name: str = "") -> None:
    """Check the members of a parsed line: the lengths of texts and shapes, and whether each text can be encoded.

    Raises
    ------
    OverLimit
        If one exceeds a limit.
    """
    if isinstance(members, str):
        _check_text(members, name)
    elif isinstance(members, dict):
        if isinstance(shape := members.get("shape"), list):
            LIMITS["axes"].check(len(shape))
        if isinstance(subjects := members.get("subjects"), list):
            LIMITS["subjects"].check(len(subjects))
        for key, member in members.items():
            _check_text(key, "name")
            # Most members are short texts and numbers. Do not call a function for each.
            if type(member) is str:
                if len(member) > _SHORT or not member.isascii():
                    _check_text(member, key)
            elif type(member) not in _NUMBERS:
                check_members(member, key)
    elif isinstance(members, list):
        for member in members:
            if type(member) not in _NUMBERS:
                check_members(member, name)


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
