"""Read the recipes of environments, `gradclip_adapters/environments.toml`."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import gradclip_adapters

from ...cases.toml_files import add_place_to_errors, check_document, read_toml
from .interpreters import is_own_version

__all__ = ["Recipe", "find_package", "is_framework_here", "read_recipes"]

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
    #: The requirement that is the framework itself. It is empty if the adapter's versions cannot be chosen.
    framework: str = ""
    #: The recipes of other versions, by version, in the order of the file.
    others: Mapping[str, Recipe] = field(default_factory=dict)
    #: What pip installs last, without the requirements that these packages have, and builds by what is installed.
    alone: tuple[str, ...] = ()
    #: The packages for Node that npm installs, with their versions: `@tensorflow/tfjs@4.22.0`.
    npm: tuple[str, ...] = ()
    #: Whether the first import compiles the framework, for minutes. Then it is a part of making the environment.
    compiles: bool = False

    @property
    def version(self) -> str:
        """The version of the framework, or an empty text if the requirement does not pin one."""
        return split_requirement(self.framework)[1]

    @property
    def packages(self) -> tuple[str, ...]:
        """All that the environment gets, whichever program installs it."""
        return (*self.requirements, *self.alone, *self.npm)


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
    older: Mapping[str, Mapping[str, Any]] = tables.get("older", {})
    with add_place_to_errors(f"{path.name}, [versions]"):
        recipes = {name: _make_recipe(name, table, tables["versions"]) for name, table in tables["adapters"].items()}
    for name, versions in older.items():
        if name not in recipes or not recipes[name].version:
            msg = f"{path.name}, [older.{name}]: there is no adapter of this name with a pinned framework."
            raise ValueError(msg)
        others = {version: _make_other(recipes[name], version, table) for version, table in versions.items()}
        recipes[name] = replace(recipes[name], others=others)
    return recipes


def _make_recipe(name: str, table: Mapping[str, Any], versions: Mapping[str, str]) -> Recipe:
    needs, alone, npm = ({need: versions[need] for need in table.get(key, ())} for key in ("needs", "alone", "npm"))
    return Recipe(
        (table["module"],) if isinstance(table["module"], str) else tuple(table["module"]),
        table.get("python"),
        tuple(needs.values()),
        table.get("megabytes"),
        {**needs, **alone, **npm}.get(table.get("framework", name), ""),
        alone=tuple(alone.values()),
        npm=tuple(npm.values()),
        compiles=table.get("compiles", False),
    )


def _make_other(recipe: Recipe, version: str, table: Mapping[str, Any]) -> Recipe:
    """Return the recipe of another version: the pins replace requirements of the same packages, or are added.

    Raises
    ------
    ValueError
        If a package to install alone is not among the requirements.
    """
    newest = split_requirement(recipe.framework)[0]
    if recipe.framework in recipe.npm:
        return _make_other_for_node(recipe, f"{newest}@{version}", table)
    pins = [f"{table.get('package', newest)}=={version}", *table.get("pins", ())]
    # A pin may name a later build of the version, such as 1.8.0.post0.
    framework = next(pin for pin in reversed(pins) if find_package(pin) == find_package(pins[0]))
    pins = [framework, *(pin for pin in pins[1:] if pin != framework)]
    chosen = {find_package(pin): pin for pin in pins}
    for one in (*recipe.requirements, *recipe.alone):
        if one != recipe.framework:
            chosen.setdefault(find_package(one), one)
    # The framework itself may have had another name.
    own = [framework if one == recipe.framework else one for one in recipe.alone]
    apart = [*map(find_package, own), *table.get("alone", ())]
    for name in apart:
        if name not in chosen:
            msg = f"{framework}: {name!r} is to be installed alone, and no requirement names it."
            raise ValueError(msg)
    alone = tuple(chosen.pop(name) for name in apart)
    return Recipe(
        recipe.modules,
        table["python"],
        tuple(chosen.values()),
        table.get("megabytes"),
        framework=framework,
        alone=alone,
    )


def _make_other_for_node(recipe: Recipe, framework: str, table: Mapping[str, Any]) -> Recipe:
    """Return the recipe of another version of a framework that npm installs."""
    npm = tuple(framework if one == recipe.framework else one for one in recipe.npm)
    return Recipe(
        recipe.modules,
        table["python"],
        recipe.requirements,
        table.get("megabytes"),
        framework=framework,
        npm=npm,
    )


def split_requirement(requirement: str) -> tuple[str, str]:
    """Return the package and the version that a requirement pins. The version is empty if it does not pin one.

    A requirement of pip is `optax==0.2.8`, and one of npm is `@tensorflow/tfjs@4.22.0`.
    """
    package, pinned, version = requirement.rpartition("@") if "==" not in requirement else requirement.partition("==")
    return (package, version) if pinned and package else (requirement, "")


def find_package(requirement: str) -> str:
    """Return the name of the package in a requirement, in lower case and with hyphens."""
    return re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower().replace("_", "-")


def is_framework_here(adapter: str) -> bool:
    """Return whether this Python has an adapter's framework. Assume so for an adapter of another package."""
    recipe = read_recipes().get(adapter)
    if recipe is None:
        return True
    if recipe.python is not None and not is_own_version(recipe.python):
        return False
    try:
        is_here = all(importlib.util.find_spec(module) is not None for module in recipe.modules)
    except ModuleNotFoundError:  # the parent of a dotted name is missing
        return False
    return is_here and all(Path(sys.prefix, "node_modules", split_requirement(one)[0]).is_dir() for one in recipe.npm)
