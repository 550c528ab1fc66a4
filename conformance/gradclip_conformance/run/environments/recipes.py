"""Read the recipes of environments, `gradclip_adapters/environments.toml`."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import gradclip_adapters

from ...cases.toml_files import add_place_to_errors, check_document, read_toml
from .interpreters import is_own_version

__all__ = ["Recipe", "is_framework_here", "read_recipes"]

SCHEMA = Path(__file__).parents[1] / "schemas" / "environments.json"


@dataclass(frozen=True)
class Recipe:
    """The requirements of an adapter's framework."""

    #: The modules of the framework. All of them must be installed.
    modules: tuple[str, ...]
    python: str | None = None
    requirements: tuple[str, ...] = ()
    #: The size of the environment in megabytes, if somebody has measured it.
    megabytes: int | None = None
    #: Whether a run without options asks the rows of the covering design.
    rows: bool = True


@cache
def read_recipes() -> dict[str, Recipe]:
    """Return the recipes of the built-in adapters, by name.

    Raises
    ------
    ValueError
        If the file is damaged; the text names it.
    """
    path = Path(gradclip_adapters.__file__).with_name("environments.toml")
    tables = read_toml(path)
    check_document(tables, SCHEMA, path.name)
    versions = tables["versions"]
    with add_place_to_errors(f"{path.name}, [versions]"):
        return {
            name: Recipe(
                (table["module"],) if isinstance(table["module"], str) else tuple(table["module"]),
                table.get("python"),
                tuple(versions[need] for need in table.get("needs", ())),
                table.get("megabytes"),
                table.get("rows", True),
            )
            for name, table in tables["adapters"].items()
        }


def is_framework_here(adapter: str) -> bool:
    """Return whether this Python has an adapter's framework. Assume so for an adapter of another package."""
    recipe = read_recipes().get(adapter)
    if recipe is None:
        return True
    if recipe.python is not None and not is_own_version(recipe.python):
        return False
    try:
        return all(importlib.util.find_spec(module) is not None for module in recipe.modules)
    except ModuleNotFoundError:  # the parent of a dotted name is missing
        return False
