"""Match names of rules, cases and entry points against patterns, and suggest names for unknown ones.

In a pattern only `*` is special: it stands for any text. Brackets are not, because names of entry points have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache

#: An error message lists all known names if there are at most this many.
LISTED = 25


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern matches the whole of a name.

    The time is linear. A regular expression could try all ways to match the stars, which takes exponential time. Both
    the pattern and the name may come from an untrusted file.
    """
    first, middle, last = _split(pattern)
    if last is None:
        return name == first
    place, end = len(first), len(name) - len(last)
    if place > end or not name.startswith(first) or not name.endswith(last):
        return False
    for part in middle:
        place = name.find(part, place, end)
        if place < 0:
            return False
        place += len(part)
    return True


def matches_any(patterns: Iterable[str], *names: str) -> bool:
    """Return whether any of the patterns matches any of the names."""
    return any(matches(pattern, name) for pattern in patterns for name in names)


@cache
def _split(pattern: str) -> tuple[str, list[str], str | None]:
    """Return the parts of a pattern: before the first star, between stars, and after the last star.

    Without a star, the first part is the whole pattern, and the last part is None.
    """
    first, *middle = pattern.split("*")
    return first, middle[:-1], middle[-1] if middle else None


def suggest_known(word: str, known: Iterable[str]) -> str:
    """Return a sentence that helps with an unknown word. It names the nearest known words, or all if they are few.

    The sentence begins with a space. It is empty if no known word is near and too many words are known.
    """
    known = list(known)
    if hint := suggest_names(get_close_matches(word, known, 3)):
        return hint
    return f" Known: {', '.join(known) or 'none'}." if len(known) <= LISTED else ""


def suggest_names(names: Sequence[str]) -> str:
    """Return a sentence that suggests names, with a space before it, or an empty text if there are none."""
    *others, last = names or ("",)
    return f" Did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if last else ""
