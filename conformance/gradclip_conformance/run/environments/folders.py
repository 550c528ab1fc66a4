"""Find the state of an environment's folder. It is absent, ready, unfinished, or not made by the suite."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock, Timeout

#: This file is written first, and says what the environment is made of.
BEGUN = "gradclip-environment.json"
#: This file is written last, and holds the fingerprint of the recipe.
READY = "gradclip-ready"
#: This file lists the files that are shorter than their wheels say, with the sizes that pip gave them.
SHORT = "gradclip-short.json"


class EnvironmentProblem(Exception):
    """An environment cannot be made or removed. The text says why and what to do."""


class State(Enum):
    """The state of a folder."""

    ABSENT = "absent"
    READY = "ready"
    UNFINISHED = "unfinished"
    #: The folder exists, and the suite did not make it.
    FOREIGN = "not made by the suite"


@dataclass(frozen=True)
class Environment:
    """A folder that holds, or may come to hold, an environment."""

    folder: Path
    state: State
    #: The fingerprint of the recipe by which the environment was made, if it is ready.
    fingerprint: str = ""
    #: The adapter and the requirements, if they are known. Older versions of the suite did not write them down.
    adapter: str = ""
    requirements: tuple[str, ...] = ()

    @property
    def python(self) -> str:
        """The environment's interpreter."""
        return str(self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def find_environments_folder() -> Path:
    """Return the folder of the environments: `GRADCLIP_VENVS`, or one in the user's cache."""
    if chosen := os.environ.get("GRADCLIP_VENVS"):
        return Path(chosen).resolve()
    return platformdirs.user_cache_path("gradclip", appauthor=False) / "venvs"


def lock(folder: Path, seconds: float = -1) -> FileLock:
    """Return the lock of an environment. A process must hold it to make or remove the environment."""
    return FileLock(folder.with_name(f"{folder.name}.lock"), timeout=seconds)


def look_at(folder: Path) -> Environment:
    """Return what a folder holds."""
    if not os.path.lexists(folder):
        return Environment(folder, State.ABSENT)
    begun = _read_object(folder / BEGUN)
    adapter, requirements = str(begun.get("adapter", folder.name)), begun.get("requirements")
    made_of = tuple(map(str, requirements)) if isinstance(requirements, list) else ()
    try:
        fingerprint = (folder / READY).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        ours = not folder.is_symlink() and (folder / BEGUN).is_file()
        return Environment(folder, State.UNFINISHED if ours else State.FOREIGN, "", adapter, made_of)
    return Environment(folder, State.READY, fingerprint, adapter, made_of)


def _read_object(path: Path) -> Mapping[str, Any]:
    """Return the object in a JSON file. It is empty if there is no such file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def find_fault(environment: Environment) -> str | None:
    """Return what is broken in an environment, or None. Python must run, and no file may be missing or cut off."""
    try:
        subprocess.run([environment.python, "-c", ""], capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return "its Python does not start"
    lists = _list_records(environment.folder)
    if not lists:
        return "it has no packages"
    short = _read_object(environment.folder / SHORT)
    return next((fault for file in lists for fault in _check_files(file, short)), None)


def note_short_files(environment: Environment) -> None:
    """Note the files that are shorter than their wheels say, right after pip has installed them.

    The list of a wheel may hold the size that a library had before it was stripped.
    """
    short = {}
    for record in _list_records(environment.folder):
        for path, size in _read_sizes(record):
            with contextlib.suppress(OSError):
                if (found := (record.parents[1] / path).stat().st_size) < size:
                    short[path] = found
    (environment.folder / SHORT).write_text(json.dumps(short) + "\n", encoding="utf-8")


def _list_records(folder: Path) -> list[Path]:
    """Return the lists of installed files, one for each distribution."""
    return [
        *folder.glob("lib/python*/site-packages/*.dist-info/RECORD"),
        *folder.glob("Lib/site-packages/*.dist-info/RECORD"),
    ]


def _read_sizes(record: Path) -> Iterator[tuple[str, int]]:
    """Yield the path and the size of each file in a list. Compiled files have no size there, and may be absent."""
    with record.open(encoding="utf-8", newline="") as stream:
        for row in csv.reader(stream):
            if len(row) == 3 and row[2].isdecimal():
                yield row[0], int(row[2])


def _check_files(record: Path, short: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each file of an installed distribution that is gone or shorter than pip made it."""
    try:
        sizes = list(_read_sizes(record))
    except (OSError, ValueError, csv.Error):
        yield f"{record.parent.name}/RECORD cannot be read"
        return
    for path, size in sizes:
        try:
            if (record.parents[1] / path).stat().st_size < short.get(path, size):
                yield f"{path} is cut off"
        except OSError:
            yield f"{path} is missing"


def list_environments() -> list[Environment]:
    """Return all environments that the suite has made or begun, sorted by folder name."""
    root = find_environments_folder()
    if not root.is_dir():
        return []
    found = [look_at(folder) for folder in sorted(root.iterdir()) if folder.is_dir()]
    return [one for one in found if one.state in (State.READY, State.UNFINISHED)]


def remove_environment(environment: Environment) -> None:
    """Remove an environment.

    Raises
    ------
    EnvironmentProblem
        If another process is making the environment, or a file cannot be removed.
    """
    try:
        with lock(environment.folder, 0):
            remove_folder(environment.folder)
    except Timeout:
        msg = f"Another process is making {environment.folder}; it was not removed."
        raise EnvironmentProblem(msg) from None
    except OSError as error:
        msg = f"Cannot remove {environment.folder}: {error}"
        raise EnvironmentProblem(msg) from error


def remove_folder(folder: Path) -> None:
    """Remove the folder of an environment.

    Remove the file `READY` first, so that a partly removed folder never counts as ready.

    Raises
    ------
    OSError
        If a file cannot be removed.
    """
    # Without this file, a folder that is not ready counts as foreign. Older versions of the suite did not write it.
    (folder / BEGUN).touch()
    with contextlib.suppress(FileNotFoundError):
        (folder / READY).unlink()
    shutil.rmtree(folder)
