"""Choose the version of a framework that a name such as `optax@0.1.9` or `paddle@2.6` asks for.

The part after the sign `@` begins a version. It stands for the newest version in `environments.toml` that begins so. If
none does, pip or npm gets the newest such version from the registry, with everything else as for the next older known
version.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import zip_longest

from .recipes import Recipe, read_recipes, split_requirement

__all__ = ["choose_version", "find_recipe", "list_versions", "matches_version", "split_version"]

#: A version that can be chosen, or the beginning of one, such as "2.6".
RELEASE = r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,9}"


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
    asked, numbers = _read_numbers(wanted), _read_numbers(release[0])
    return all(one == other for one, other in zip_longest(asked, numbers[: len(asked)], fillvalue=0))


def list_versions(adapter: str) -> list[str]:
    """Return the known versions of an adapter's framework, the newest first."""
    recipe = read_recipes().get(adapter)
    if recipe is None or not recipe.version:
        return []
    return sorted([recipe.version, *recipe.others], key=_read_numbers, reverse=True)


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
    ordered = sorted(known, key=_read_numbers)
    nearest = known[next((one for one in reversed(ordered) if _read_numbers(one) < _read_numbers(version)), ordered[0])]
    package, _ = split_requirement(nearest.framework)
    # For npm, a version stands for all that begin so.
    framework = f"{package}@{version}" if nearest.framework in nearest.npm else f"{package}=={version}.*"
    requirements, alone, npm = (
        tuple(framework if one == nearest.framework else one for one in listed)
        for listed in (nearest.requirements, nearest.alone, nearest.npm)
    )
    return replace(
        nearest, requirements=requirements, alone=alone, npm=npm, megabytes=None, framework=framework, others={}
    )


def _read_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]+", version))
