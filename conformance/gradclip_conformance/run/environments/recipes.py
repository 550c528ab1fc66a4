"""Read the recipes of environments, `gradclip_adapters/environments.toml`, and find the one for a name.

A name such as `optax@0.1.9` or `paddle@2.6` asks for a version. The part after the sign `@` begins a version. It stands
for the newest version in the file that begins so. If none does, pip or npm gets the newest such version from the
registry, with everything else as for the next older known version.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import gradclip_adapters
from gradclip_reports.versions import read_numbers

from ...cases.toml_files import add_place_to_errors, check_document, read_toml

SCHEMA = Path(__file__).parents[1] / "schemas" / "environments.json"

#: A version that can be chosen, or the beginning of one, such as "2.6".
RELEASE = r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,9}"


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

    def replace_framework(self, framework: str) -> Recipe:
        """Return the recipe with another requirement for the framework itself. Its size is not known."""
        requirements, alone, npm = (
            tuple(framework if one == self.framework else one for one in listed)
            for listed in (self.requirements, self.alone, self.npm)
        )
        return replace(
            self, requirements=requirements, alone=alone, npm=npm, megabytes=None, framework=framework, others={}
        )


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
        other = recipe.replace_framework(f"{newest}@{version}")
        return replace(other, python=table["python"], megabytes=table.get("megabytes"))
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


def is_own_version(version: str) -> bool:
    """Return whether this Python has a version such as "3.11"."""
    return ".".join(map(str, sys.version_info[:2])) == version


def split_version(name: str) -> tuple[str, str]:
    """Return the adapter and the version of a name such as `optax@0.1.9`.

    The version is empty if there is none. A sign `@` in a path begins no version.
    """
    found = re.fullmatch(rf"([A-Za-z0-9._-]+)@({RELEASE})", name)
    return (name, "") if found is None else (found[1], found[2])


def matches_version(wanted: str, version: str) -> bool:
    """Return whether a version begins as wanted: "2.6" stands for 2.6.2 and for 2.6.0+cpu, and "2.6.0" also for 2.6."""
    release = re.match(RELEASE, version)
    if release is None:
        return False
    asked, numbers = read_numbers(wanted), read_numbers(release[0])
    return all(one == other for one, other in zip_longest(asked, numbers[: len(asked)], fillvalue=0))


def list_versions(adapter: str) -> list[str]:
    """Return the known versions of an adapter's framework, the newest first."""
    recipe = read_recipes().get(adapter)
    if recipe is None or not recipe.version:
        return []
    return sorted([recipe.version, *recipe.others], key=read_numbers, reverse=True)


def choose_version(name: str) -> str:
    """Return a name with the newest known version that it stands for, such as `paddle@2.6.2` for `paddle@2.6`.

    The version that the project tests has no sign `@` in its name. An unknown version stays as it is.
    """
    adapter, wanted = split_version(name)
    recipe = read_recipes().get(adapter)
    found = next((version for version in list_versions(adapter) if matches_version(wanted, version)), wanted)
    return adapter if not wanted or (recipe is not None and found == recipe.version) else f"{adapter}@{found}"


def find_recipe(name: str) -> Recipe | None:
    """Return the recipe for the name of an adapter, with or without a version, or None if there is none."""
    adapter, version = split_version(choose_version(name))
    recipe = read_recipes().get(adapter)
    if not version:
        return recipe
    if recipe is None or not recipe.version:
        return None
    known = {**recipe.others, recipe.version: recipe}
    return known.get(version) or _adapt(known, version)


def _adapt(known: dict[str, Recipe], version: str) -> Recipe:
    """Return the recipe of an unknown version. It is that of the next older known version, or of the oldest."""
    ordered = sorted(known, key=read_numbers)
    nearest = known[next((one for one in reversed(ordered) if read_numbers(one) < read_numbers(version)), ordered[0])]
    package, _ = split_requirement(nearest.framework)
    # For npm, a version stands for all that begin so.
    return nearest.replace_framework(
        f"{package}@{version}" if nearest.framework in nearest.npm else f"{package}=={version}.*"
    )
