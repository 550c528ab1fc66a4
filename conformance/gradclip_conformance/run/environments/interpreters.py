"""Find an interpreter of the version that a framework needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["EnvironmentProblem", "find_base", "find_interpreter", "is_own_version"]


class EnvironmentProblem(Exception):
    """An environment cannot be made or removed. The text says why and what to do."""


def is_own_version(version: str) -> bool:
    """Return whether this Python has a version such as "3.11"."""
    return ".".join(map(str, sys.version_info[:2])) == version


def find_interpreter(version: str | None, adapter: str) -> str:
    """Return an interpreter of a version: this one if it serves, or the first one that is found and runs.

    Raises
    ------
    EnvironmentProblem
        If there is none.
    """
    if version is None or is_own_version(version):
        return sys.executable
    broken = []
    for candidate in _list_candidates(version):
        if _ask_version(candidate) == version:
            return candidate
        broken.append(candidate)
    msg = (
        f"The adapter {adapter!r} runs on Python {version}, and none is found (looked for python{version} on the path "
        f"and among the versions of pyenv and uv). Install it, for example with `pyenv install {version}` or "
        f"`uv python install {version}`, or name a Python that has the framework with --python."
    )
    if broken:
        msg += f" {', '.join(broken)} did not run as Python {version}."
    raise EnvironmentProblem(msg)


def _ask_version(candidate: str) -> str | None:
    """Return the version of an interpreter, or None if it does not run."""
    ask = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        said = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip() if said.returncode == 0 else None


def _list_candidates(version: str) -> Iterator[str]:
    if (found := shutil.which(f"python{version}")) is not None:
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    data = Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share"))
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", data / "uv" / "python"))
    folders = [*pyenv.glob(f"versions/{version}.*"), *uv.glob(f"cpython-{version}.*")]
    # List the newest patch release first.
    for folder in sorted(folders, key=lambda f: [int(n) for n in re.findall(r"\d+", f.name)[:3]], reverse=True):
        yield str(folder / "bin" / "python")


def find_base(interpreter: str) -> str:
    """Return the place of an interpreter's installation, which all its virtual environments share."""
    if interpreter == sys.executable:
        return os.path.realpath(getattr(sys, "_base_executable", None) or interpreter)
    return os.path.realpath(interpreter)
