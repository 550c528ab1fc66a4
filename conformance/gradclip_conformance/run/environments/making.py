"""Make the environment of a framework, once, and find it again.

The interpreter of the right version makes the environment with `python -m venv`: every Python has `venv`, while other
tools drop support for old versions. The environment's own pip installs the framework.

An environment is in the folder with the adapter's name, such as `optax`, or `optax@0.1.9` for another version. If that
folder holds an environment of another recipe, or something that the suite did not make, a part of the recipe's
fingerprint is added to the name. So two versions of the suite do not delete each other's environments, and nothing of
the user is deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from filelock import Timeout

from gradclip_reports.progress import Task, say_line, show_task

from ...judge.model import StartError
from ..host_process import HostProcess, build_host_command
from .folders import (
    BEGUN,
    READY,
    Environment,
    EnvironmentProblem,
    State,
    find_environments_folder,
    find_fault,
    lock,
    look_at,
    note_short_files,
    remove_folder,
)
from .recipes import Recipe, choose_version, find_recipe, is_own_version, list_versions, split_version

#: pip's lines about its progress: what it downloads, with the size, and what it installs.
DOWNLOADS = re.compile(r"\s*Downloading (\S+) \(([\d.]+ [kMG]?B)\)")
INSTALLS = re.compile(r"\s*Installing collected packages: (.+)")
#: The time limit of a first import that compiles.
COMPILING_SECONDS = 3600.0
#: The number of pip's last lines that a message about its failure holds.
TAIL = 5


def make_environment(adapter: str) -> str:
    """Return the Python of an adapter's environment, and make the environment first if need be.

    Parameters
    ----------
    adapter
        The name of the adapter, if need be with a version of its framework: `optax@0.1.9`.

    Raises
    ------
    EnvironmentProblem
        If the version cannot be chosen, no interpreter is found, or the installation fails.
    """
    adapter = choose_version(adapter)
    recipe = find_recipe(adapter)
    if recipe is None and split_version(adapter)[1]:
        msg = f"The suite has no recipe for versions of this framework. Name a Python that has {adapter} with --python."
        raise EnvironmentProblem(msg)
    if recipe is None or not recipe.requirements:
        return sys.executable
    interpreter = find_interpreter(recipe.python, adapter)
    fingerprint = _compute_fingerprint(recipe, interpreter)
    root = find_environments_folder()
    folders = [root / adapter, root / f"{adapter}-{fingerprint[:8]}"]
    for folder in folders:
        found = look_at(folder)
        if found.fingerprint == fingerprint and find_fault(found) is None:
            return found.python
    try:
        root.mkdir(parents=True, exist_ok=True)
        for folder in folders:
            with _wait_for_lock(folder):
                found = look_at(folder)
                if found.state is State.FOREIGN or found.fingerprint not in ("", fingerprint):
                    continue
                return _make_in(found, adapter, recipe, interpreter, fingerprint)
    except OSError as error:
        msg = f"Cannot make the environment of {adapter!r} in {root}: {error}. GRADCLIP_VENVS names another folder."
        raise EnvironmentProblem(msg) from error
    msg = f"{folders[0]} and {folders[1]} hold something else. Move it away, or name another folder in GRADCLIP_VENVS."
    raise EnvironmentProblem(msg)


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


def _find_base(interpreter: str) -> str:
    """Return the place of an interpreter's installation, which all its virtual environments share."""
    if interpreter == sys.executable:
        return os.path.realpath(getattr(sys, "_base_executable", None) or interpreter)
    return os.path.realpath(interpreter)


def _compute_fingerprint(recipe: Recipe, interpreter: str) -> str:
    more = [*(f"--no-deps {one}" for one in recipe.alone), *(f"npm {one}" for one in recipe.npm)]
    return hashlib.sha256("\n".join([_find_base(interpreter), *recipe.requirements, *more]).encode()).hexdigest()


def describe_fault(environment: Environment) -> str | None:
    """Return why the next run would not use an environment that is ready, or None if it would use it."""
    recipe = find_recipe(environment.adapter)
    if recipe is None:
        return "of an adapter that this version of the suite does not have"
    try:
        current = _compute_fingerprint(recipe, find_interpreter(recipe.python, environment.adapter))
    except EnvironmentProblem:
        return f"of Python {recipe.python}, which is not here any more"
    if environment.fingerprint != current:
        return "of another recipe or another Python"
    fault = find_fault(environment)
    return None if fault is None else f"broken: {fault}"


@contextlib.contextmanager
def _wait_for_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of an environment. Wait as long as another process makes the environment."""
    try:
        held = lock(folder, 1).acquire()
    except Timeout:
        say_line(f"Another process is making the environment {folder.name}; this one waits for it.")
        held = lock(folder).acquire()
    with held:
        yield


def _make_in(found: Environment, adapter: str, recipe: Recipe, interpreter: str, fingerprint: str) -> str:
    """Make an environment in a folder that is absent, unfinished or broken, while this process holds its lock."""
    if found.state is State.READY:
        fault = find_fault(found)
        # Another process may have made it while this one waited for the lock.
        if fault is None:
            return found.python
        say_line(f"The environment of {adapter} is broken ({fault}), and is made anew.")
    elif found.state is State.UNFINISHED:
        say_line(f"The environment of {adapter} was not finished, and is made anew.")
    if found.state is not State.ABSENT:
        remove_folder(found.folder)
    found.folder.mkdir()
    begun = {"adapter": adapter, "requirements": recipe.packages, "interpreter": interpreter}
    (found.folder / BEGUN).write_text(json.dumps(begun) + "\n", encoding="utf-8")
    name, version = split_version(adapter)
    if version and version not in (known := list_versions(name)):
        say_line(f"{version} is not among the versions of {name} that the suite knows: {', '.join(known)}.")
    size = "" if recipe.megabytes is None else f", about {recipe.megabytes} MB when installed"
    title = f"Making the environment of {adapter}: {', '.join(recipe.packages)}{size}"
    with show_task(title, keep=True) as task:
        _run([interpreter, "-m", "venv", str(found.folder)], adapter, task)
        install = [found.python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
        _run([*install, *recipe.requirements], adapter, task)
        if recipe.alone:
            _run([*install, "--no-deps", "--no-build-isolation", *recipe.alone], adapter, task)
        if recipe.npm:
            # Scripts of packages need not run: no adapter needs a package that builds something.
            npm = [_find_npm(adapter), "install", "--prefix", str(found.folder), "--ignore-scripts", "--no-audit"]
            _run([*npm, "--no-fund", "--loglevel=error", *recipe.npm], adapter, task)
        if recipe.compiles:
            task.tell("  the first import compiles the framework; this takes minutes")
            _start_once(found.python, adapter)
    note_short_files(found)
    (found.folder / READY).write_text(fingerprint, encoding="utf-8")
    return found.python


def _find_npm(adapter: str) -> str:
    if (found := shutil.which("npm")) is None:
        msg = f"The adapter {adapter!r} runs on Node, and there is no program npm: install Node."
        raise EnvironmentProblem(msg)
    return found


def _start_once(python: str, adapter: str) -> None:
    """Start the adapter's host, so that later starts find what the first import compiles."""
    try:
        HostProcess([*build_host_command(python), split_version(adapter)[0]], start_seconds=COMPILING_SECONDS).close()
    except StartError as error:
        msg = f"The first start in the new environment of {adapter!r} failed: {error}"
        raise EnvironmentProblem(msg) from error


def _run(command: list[str], adapter: str, task: Task) -> None:
    """Run a command to its end, and report what it says about its progress."""
    tail: deque[str] = deque(maxlen=TAIL)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                tail.append(line.rstrip())
                _report(line, task)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        last = "\n".join(line for line in tail if line)
        msg = f"Making the environment of {adapter!r} failed at `{' '.join(command[1:4])} ...`:\n{last}"
        raise EnvironmentProblem(msg)


def _report(line: str, task: Task) -> None:
    if (found := DOWNLOADS.match(line)) is not None:
        task.tell(f"  pip downloads {Path(found[1]).name}, {found[2]}")
    elif (found := INSTALLS.match(line)) is not None:
        task.tell(f"  pip installs {len(found[1].split(','))} packages")
