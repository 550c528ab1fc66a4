"""Make a virtual environment for each framework, because their requirements conflict.

The interpreter of the right version makes the environment with `python -m venv`: every Python has `venv`, while other
tools drop support for old versions. The environment's own pip installs the framework. An environment is used again
until its recipe in `gradclip_adapters/environments.toml` changes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import platformdirs
from filelock import FileLock

import gradclip_adapters
from gradclip_reports.progress import show_task

from ..cases.toml_files import add_place_to_errors, check_document, read_toml

__all__ = ["EnvironmentProblem", "Recipe", "is_framework_here", "make_environment", "read_recipes"]

READY = "gradclip-ready"
SCHEMA = Path(__file__).parent / "schemas" / "environments.json"


class EnvironmentProblem(Exception):
    """An environment cannot be made; the text says what is missing and what to do."""


@dataclass(frozen=True)
class Recipe:
    """The requirements of an adapter's framework."""

    module: str
    python: str | None = None
    requirements: tuple[str, ...] = ()


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
            name: Recipe(table["module"], table.get("python"), tuple(versions[need] for need in table.get("needs", ())))
            for name, table in tables["adapters"].items()
        }


def is_framework_here(adapter: str) -> bool:
    """Return whether this Python has an adapter's framework; assume so for an adapter of another package."""
    recipe = read_recipes().get(adapter)
    if recipe is None:
        return True
    if recipe.python is not None and not _is_version(recipe.python):
        return False
    try:
        return importlib.util.find_spec(recipe.module) is not None
    except ModuleNotFoundError:  # the parent of a dotted name is missing
        return False


def make_environment(adapter: str) -> str:
    """Return the Python of an adapter's environment, and make the environment first if need be.

    Raises
    ------
    EnvironmentProblem
        If no interpreter of the version is found, or the installation fails.
    """
    recipe = read_recipes().get(adapter)
    if recipe is None or not recipe.requirements:
        return sys.executable
    interpreter = _find_interpreter(recipe.python, adapter)
    fingerprint = hashlib.sha256("\n".join([_find_base(interpreter), *recipe.requirements]).encode()).hexdigest()
    folder = find_environments_folder() / adapter
    python = str(folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    ready = folder / READY
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Another process that needs the environment waits until it is made.
    with FileLock(folder.with_name(f"{adapter}.lock")):
        if ready.exists() and ready.read_text(encoding="utf-8") == fingerprint:
            return python
        shutil.rmtree(folder, ignore_errors=True)
        with show_task(f"making the environment of {adapter}: {', '.join(recipe.requirements)}") as task:
            _run([interpreter, "-m", "venv", str(folder)], adapter)
            task.note(f"pip downloads {', '.join(recipe.requirements)}")
            install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*install, *recipe.requirements], adapter)
        ready.write_text(fingerprint, encoding="utf-8")
    return python


def _find_base(interpreter: str) -> str:
    """Return the place of an interpreter's installation, which all its virtual environments share."""
    if interpreter == sys.executable:
        return os.path.realpath(getattr(sys, "_base_executable", None) or interpreter)
    return os.path.realpath(interpreter)


def find_environments_folder() -> Path:
    """Return the folder of the environments: `GRADCLIP_VENVS`, or one in the user's cache."""
    if chosen := os.environ.get("GRADCLIP_VENVS"):
        return Path(chosen).resolve()
    return platformdirs.user_cache_path("gradclip", appauthor=False) / "venvs"


def _is_version(version: str) -> bool:
    return ".".join(map(str, sys.version_info[:2])) == version


def _find_interpreter(version: str | None, adapter: str) -> str:
    if version is None or _is_version(version):
        return sys.executable
    for candidate in _list_candidates(version):
        said = subprocess.run(
            [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if said.returncode == 0 and said.stdout.strip() == version:
            return candidate
    msg = (
        f"The adapter {adapter!r} runs on Python {version}, and none is found (looked for python{version} on the path "
        f"and among pyenv's versions). Install it, for example with `pyenv install {version}`, or name a Python that "
        "has the framework with --python."
    )
    raise EnvironmentProblem(msg)


def _list_candidates(version: str) -> Iterator[str]:
    if (found := shutil.which(f"python{version}")) is not None:
        yield found
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    # List the newest patch release first.
    folders = sorted(root.glob(f"versions/{version}.*"), key=lambda f: [int(n) for n in re.findall(r"\d+", f.name)])
    for folder in reversed(folders):
        yield str(folder / "bin" / "python")


def _run(command: list[str], adapter: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        msg = f"Making the environment of {adapter!r} failed at `{' '.join(command[1:4])} ...`:\n{tail}"
        raise EnvironmentProblem(msg)
