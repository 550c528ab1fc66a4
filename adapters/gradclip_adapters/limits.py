"""Define the limits of messages between the suite and a host, and parse messages within them.

Neither side trusts the other: a framework may print to the wrong pipe, a function may return gigabytes, a record may be
forged. So each side checks a limit before it allocates, parses or decodes anything, and an error names the limit. This
module holds all limits, with their reasons.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any, NamedTuple


class Limit(NamedTuple):
    """One limit: the things that it counts, the largest number allowed, and the reason."""

    name: str
    number: int
    reason: str


LINE = Limit("bytes in a line", 512 << 20, "ten million float64 gradients and their inputs take 214 MB in base64")
TEXT = Limit("characters in a text", 100_000, "the longest traceback of a framework has about ten thousand")
SHOWN_TEXT = Limit("characters in a text that our own host sends", 10_000, "nobody reads more of an error message")
NAME = Limit("characters in a name", 300, "the longest name of an entry point, with its mode, has fewer than a hundred")
AXES = Limit("axes in a shape", 64, "NumPy allows no more")
LENGTH = Limit("elements along an axis", 1 << 40, "this many elements of the smallest dtype take two terabytes")
RECIPE = Limit("bytes of an array that a recipe makes", 1 << 30, "the largest have ten million elements")
DEPTH = Limit("levels of nesting", 16, "the deepest message has seven")
VALUES = Limit("values in a message", 1_000_000, "a call of 10,000 gradients has 100,000")
DIGITS = Limit("digits in a number", 40, "a threshold may be an integer beyond 64 bits; none needs more digits")
HEX = Limit("characters in a hexadecimal float", 40, "float64 needs 24")
GRADIENTS = Limit("gradients in a message", 20_000, "the largest models have a few thousand")
ROWS = Limit("rows in a sparse gradient", 100_000, "cases have fewer than ten")
ENTRY_POINTS = Limit("entry points in a message", 1_000, "no framework has more than a few dozen entry points")
WORDS = Limit("words in a list", 100, "the contract defines fewer than 50 features")
WARNINGS = Limit("warnings in a message", 100, "a call that warns more often repeats itself")
ENTRIES = Limit("entries in an environment", 200, "adapters name fewer than ten")
OPTIONS = Limit("options in a call", 50, "the contract defines fewer than 25")

#: The key of a list or an object, with a limit for its number of items.
_ITEMS = {
    "shape": AXES,
    "shapes": GRADIENTS,
    "gradients": GRADIENTS,
    "inputs": GRADIENTS,
    "same_object": GRADIENTS,
    "rows": ROWS,
    "subjects": ENTRY_POINTS,
    "dtypes": WORDS,
    "features": WORDS,
    "norm_types": WORDS,
    "formula": WORDS,
    "warnings": WARNINGS,
    "environment": ENTRIES,
    "options": OPTIONS,
}

#: The limits of texts, by their keys. `data` may fill a line. The array's shape limits it further.
_TEXTS = {
    **dict.fromkeys(("dtype", "target", "python", "platform"), NAME),
    "framework": NAME,
    "version": NAME,
    "subject": NAME,
    "name": NAME,
    "kind": NAME,
    "hex": HEX,
    "data": LINE,
}

#: No limit of a text, and none of a number of items, is below these numbers.
_SHORT = min(limit.number for limit in (TEXT, *_TEXTS.values()))
_FEW = min(limit.number for limit in (VALUES, *_ITEMS.values()))

_STRING = re.compile(r'"[^"]*(?:"|\Z)')
_BRACKET = re.compile(r"[\[\]{}]")
#: How much deeper the text after a bracket is nested.
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}
_LONG_NUMBER = re.compile(rf"[0-9]{{{DIGITS.number + 1}}}")


class LimitExceeded(ValueError):
    """A message exceeds a limit. The text names the limit."""

    def __init__(self, limit: Limit, count: int | str) -> None:
        found = f"{count:,}" if isinstance(count, int) else count
        super().__init__(f"{found} {limit.name}: the limit is {limit.number:,}")
        self.limit = limit


def check_limit(limit: Limit, count: int) -> None:
    """Refuse a count that exceeds a limit.

    Raises
    ------
    LimitExceeded
        If the count exceeds the limit.
    """
    if count > limit.number:
        raise LimitExceeded(limit, count)


def shorten(text: str, limit: Limit = SHOWN_TEXT) -> str:
    """Return a text. If it is too long, cut its middle. The start says what happened, and the end says where."""
    if len(text) <= limit.number:
        return text
    half = limit.number // 2 - 50
    left_out = len(text) - 2 * half
    return f"{text[:half]} [... {left_out:,} characters left out ...] {text[-half:]}"


def parse_message(line: str) -> dict[str, Any]:
    """Parse a line into the JSON object that it holds.

    Raises
    ------
    LimitExceeded
        If the line exceeds one of the limits; most are checked before the line is parsed.
    ValueError
        If the line is not strict JSON or not an object, or if a key occurs twice in an object.
    """
    check_limit(LINE, len(line))
    _check_structure(line)
    try:
        message = json.loads(
            line, object_pairs_hook=_check_object, parse_float=_refuse_float, parse_constant=_refuse_float
        )
    except json.JSONDecodeError as error:
        text = f"not JSON ({error.msg}): {line.strip()[:120]!r}"
        raise ValueError(text) from error
    if not isinstance(message, dict):
        text = f"not a JSON object: {line.strip()[:120]!r}"
        raise ValueError(text)
    return message


def _check_structure(line: str) -> None:
    """Check the nesting, the number of values and the digits of a line before it is parsed."""
    if "\\" in line:
        # Remove escaped backslashes first, because the second one of a pair escapes nothing.
        line = line.replace("\\\\", "").replace('\\"', "")
    structure = _STRING.sub('""', line)
    check_limit(VALUES, structure.count(",") + structure.count("[") + structure.count("{"))
    # Only a line that is not JSON closes more than it opens. The list of its brackets must not fill the memory.
    check_limit(VALUES, structure.count("]") + structure.count("}"))
    if _LONG_NUMBER.search(structure):
        raise LimitExceeded(DIGITS, f"More than {DIGITS.number}")
    steps = map(_STEPS.__getitem__, _BRACKET.findall(structure))
    check_limit(DEPTH, max(accumulate(steps), default=0))


def _check_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        text = f"the key {twice!r} occurs twice in one object"
        raise ValueError(text)
    # Long lists have an object for each gradient, and most values are short. So this compares before it calls.
    longest = NAME.number
    for key, value in pairs:
        if len(key) > longest:
            raise LimitExceeded(NAME, len(key))
        kind = type(value)
        if kind is str:
            if len(value) > _SHORT:
                check_limit(_TEXTS.get(key, TEXT), len(value))
        elif kind is list:
            if len(value) > _FEW:
                check_limit(_ITEMS.get(key, VALUES), len(value))
            for item in value:
                if type(item) is str:
                    check_limit(TEXT, len(item))
        elif kind is dict and len(value) > _FEW:
            check_limit(_ITEMS.get(key, VALUES), len(value))
    return found


def _refuse_float(text: str) -> Any:
    message = f"the number {text[:40]} is not sent exactly: send floats as hexadecimal text"
    raise ValueError(message)
