"""Match names of rules, cases and subjects against patterns.

`*` alone is special: it stands for any text. The names of subjects are full of brackets, so no bracket is special.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache

__all__ = ["did_you_mean", "matches", "matches_any"]


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a whole name."""
    return _compile(pattern).fullmatch(name) is not None


def matches_any(patterns: Iterable[str], *names: str) -> bool:
    """Return whether one of the patterns matches one of the names."""
    return any(matches(pattern, name) for pattern in patterns for name in names)


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown word: the nearest known one, or all of them."""
    known = list(known)
    near = get_close_matches(word, known, 1)
    return f"did you mean {near[0]!r}?" if near else f"choose among {', '.join(known) or 'none'}."
