"""Patterns of subjects and cases, in which `*` alone is special: the names of subjects are full of brackets."""

from __future__ import annotations

import re
from functools import cache

__all__ = ["matches"]


def matches(pattern: str, name: str) -> bool:
    """Whether a name is what a pattern says; `*` stands for any text."""
    return _compiled(pattern).fullmatch(name) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))))
