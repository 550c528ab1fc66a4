"""Fuzz the TOML file of the package: recipes of environments."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import gradclip_adapters
from gradclip_conformance.run.environments import recipes as environments

from ..guards import enter_folder
from ..mutation import change, draw_named
from ..target import Target, require
from ..toml import write_toml

PACKAGE = Path(gradclip_adapters.__file__).parent


def _read_ours(path: Path) -> Any:
    return tomllib.loads(path.read_text(encoding="utf-8"))


FILES = {"environments.toml": _read_ours(PACKAGE / "environments.toml")}

EXAMPLES = draw_named(FILES, times=(2, 20, 5_000))


def check(example: Any) -> None:
    """Read a changed file as the suite does: reading works, or raises a ValueError that names the file."""
    name, wanted = example
    with enter_folder() as place:
        path = place / name
        path.write_text(write_toml(change(FILES[name], wanted)), encoding="utf-8", errors="surrogatepass")
        try:
            READERS[name](path)
        except ValueError as error:
            require(name in str(error), f"a refusal does not name the file: {error!r}")


def _read_environments(path: Path) -> None:
    environments.read_recipes.cache_clear()
    try:
        with mock.patch.object(environments, "gradclip_adapters", SimpleNamespace(__file__=str(path))):
            for adapter in environments.read_recipes():
                environments.is_framework_here(adapter)
    finally:
        environments.read_recipes.cache_clear()


READERS: dict[str, Callable[[Path], None]] = {"environments.toml": _read_environments}

TARGET = Target(EXAMPLES, check)
