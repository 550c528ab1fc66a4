"""Hold the expectations of cases: one class each, with its calls, verdict, description and script.

Every module in this folder is loaded: a new expectation is a class in a new file here, and no other file names it.
"""

from __future__ import annotations

import importlib
import pkgutil

from ..expectation import Expectation

__all__ = ["load_expectations"]


def load_expectations() -> tuple[type[Expectation], ...]:
    """Import each module of this folder, and return the expectations that they define, by their names."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    classes = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Expectation) and "name" in vars(value)
    }
    return tuple(sorted(classes, key=lambda kind: kind.name))
