"""Collect the cases of all themes. Each theme has a module in `themes`, and a file of rules of the same name.

The cases of averages, those per example and unitwise are of several themes.
"""

from __future__ import annotations

from functools import cache

from .model import Case
from .themes import (
    arguments,
    averages,
    effects,
    examples,
    exclusion,
    formula,
    metamorphic,
    nonfinite,
    optimizer,
    precision,
    range,
    structure,
    units,
    zero,
)

__all__ = ["THEMES", "list_all_cases"]

THEMES = {
    "formula": formula,
    "exclusion": exclusion,
    "structure": structure,
    "zero": zero,
    "nonfinite": nonfinite,
    "range": range,
    "precision": precision,
    "arguments": arguments,
    "effects": effects,
    "optimizer": optimizer,
    "metamorphic": metamorphic,
    "averages": averages,
    "examples": examples,
    "units": units,
}


@cache
def list_all_cases() -> tuple[Case, ...]:
    """Return every case in the order of the themes. No two cases have the same id."""
    cases = tuple(case for theme in THEMES.values() for case in theme.make_cases())
    ids = [case.id for case in cases]
    twice = sorted({name for name in ids if ids.count(name) > 1}) if len(set(ids)) < len(ids) else []
    assert not twice, f"several cases have the same id: {twice}"
    return cases
