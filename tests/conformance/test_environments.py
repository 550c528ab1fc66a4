"""Check that a framework's environment is made once and shared, even by processes that start together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from gradclip_conformance.run import environments

#: This program makes an environment and leaves a mark in it. Every new environment already meets its only requirement.
MAKE = """
import sys
from pathlib import Path
from gradclip_conformance.run import environments

environments.read_recipes = lambda: {"library": environments.Recipe("library", None, tuple(sys.argv[1:]))}
python = environments.make_environment("library")
with Path(python).with_name("marks").open("a") as marks:
    marks.write("x")
print(python)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADCLIP_VENVS", str(tmp_path / "environments"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    return tmp_path / "environments" / "library"


def start(python: str | Path = sys.executable, requirement: str = "pip") -> subprocess.Popen[str]:
    return subprocess.Popen([python, "-c", MAKE, requirement], stdout=subprocess.PIPE, text=True)


def read_marks(process: subprocess.Popen[str]) -> str:
    """Return the marks of all processes that made or used the environment."""
    python, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    subprocess.run([python.strip(), "-c", "import pip"], check=True)
    return Path(python.strip()).with_name("marks").read_text()


def test_folder_is_in_the_users_cache_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRADCLIP_VENVS", raising=False)
    assert (
        environments.find_environments_folder() == platformdirs.user_cache_path("gradclip", appauthor=False) / "venvs"
    )

    monkeypatch.setenv("GRADCLIP_VENVS", str(tmp_path))
    assert environments.find_environments_folder() == tmp_path.resolve()


@pytest.mark.exam(sample=0)
def test_environment_is_made_once_for_all_environments_of_a_python(folder: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "other"], check=True)

    assert read_marks(start()) == "x"
    assert read_marks(start()) == "xx"
    assert read_marks(start(tmp_path / "other" / ("Scripts" if os.name == "nt" else "bin") / "python")) == "xxx"
    # Another recipe makes another environment.
    assert read_marks(start(requirement="pip>1")) == "x"
    assert folder.is_dir()


@pytest.mark.exam(sample=0)
def test_process_waits_while_another_makes_the_environment(folder: Path) -> None:
    both = [start(), start()]

    assert {read_marks(process) for process in both} <= {"x", "xx"}
    assert (folder / "gradclip-ready").exists()
    assert read_marks(start()) == "xxx"
