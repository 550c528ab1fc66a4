"""Collect the cases of all themes: each module in the folder `themes` has some.

A theme of rules has a module there, and a file of rules of the same name. Some operations have modules of their own,
with cases of several themes.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from types import ModuleType

from gradclip_spec import rules

from . import themes
from .model import Case


def _import_themes() -> dict[str, ModuleType]:
    """Return the modules by name: those of the themes of rules in their order, and then the others."""
    names = {module.name for module in pkgutil.iter_modules(themes.__path__)}
    ordered = [*(name for name in rules.THEMES if name in names), *sorted(names.difference(rules.THEMES))]
    return {name: import_module(f"{themes.__name__}.{name}") for name in ordered}


#: The modules with cases.
THEMES = _import_themes()


@cache
def list_all_cases() -> tuple[Case, ...]:
    """Return every case in the order of the themes. No two cases have the same id."""
    cases = tuple(case for theme in THEMES.values() for case in theme.make_cases())
    ids = [case.id for case in cases]
    twice = sorted({name for name in ids if ids.count(name) > 1}) if len(set(ids)) < len(ids) else []
    assert not twice, f"several cases have the same id: {twice}"
    return cases
