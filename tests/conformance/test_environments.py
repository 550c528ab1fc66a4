"""Check that an environment is made once and shared, made anew if it is broken, and listed and removed."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from runs import run_command

from gradclip_conformance.run.environments import folders, making, recipes

#: This program makes an environment and leaves a mark in it. Every new environment already meets its only requirement.
MAKE = """
import sys
from pathlib import Path
from gradclip_conformance.run.environments import making, recipes

recipes.read_recipes = lambda: {"library": recipes.Recipe(("library",), None, tuple(sys.argv[1:]))}
python = making.make_environment("library")
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


@pytest.mark.thorough(sample=0)
def test_environment_is_made_once_although_the_suite_runs_in_several_environments(folder: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "other"], check=True)

    assert read_marks(start()) == "x"
    assert read_marks(start()) == "xx"
    assert read_marks(start(tmp_path / "other" / ("Scripts" if os.name == "nt" else "bin") / "python")) == "xxx"
    # Another recipe makes another environment.
    assert read_marks(start(requirement="pip>1")) == "x"
    # The first environment is still there, because another version of the suite may use it.
    assert read_marks(start()) == "xxxx"
    assert len(list(folder.parent.glob("library*/gradclip-ready"))) == 2


@pytest.mark.thorough(sample=0)
def test_process_waits_while_another_makes_the_environment(folder: Path) -> None:
    both = [start(), start()]

    assert {read_marks(process) for process in both} <= {"x", "xx"}
    assert (folder / "gradclip-ready").exists()
    assert read_marks(start()) == "xxx"


def set_recipe(monkeypatch: pytest.MonkeyPatch, recipe: recipes.Recipe) -> None:
    monkeypatch.setattr(recipes, "read_recipes", lambda: {"library": recipe})


@pytest.fixture
def made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of environments. It holds one environment, which is ready and was made without pip."""
    if os.name == "nt":
        pytest.skip("the pretended environment has the folders of Linux")
    set_recipe(monkeypatch, recipes.Recipe(("library",), None, ("library==1",)))
    monkeypatch.setattr(making, "_run", pretend)
    making.make_environment("library")
    return folder.parent


def pretend(command: list[str], adapter: str, task: object) -> None:
    """Make the files that `python -m venv FOLDER` and `pip install` leave behind, as far as the suite reads them."""
    del adapter, task
    if "venv" in command:
        folder = Path(command[-1])
        (folder / "bin").mkdir()
        (folder / "bin" / "python").symlink_to(sys.executable)
    else:
        record = Path(command[0]).parents[1] / "lib/python3/site-packages/library-1.dist-info/RECORD"
        record.parent.mkdir(parents=True)
        (record.parents[1] / "library.py").write_text("NUMBER = 1\n")
        record.write_text("library.py,sha256=0,11\nlibrary.pyc,,\n")


run = functools.partial(run_command, "env")


@pytest.mark.parametrize(
    ("path", "text", "fault"),
    [
        ("bin/python", None, "its Python does not start"),
        ("lib/python3/site-packages/library.py", None, "library.py is missing"),
        ("lib/python3/site-packages/library.py", "NUMBER", "library.py is cut off"),
        ("lib/python3/site-packages/library-1.dist-info/RECORD", None, "it has no packages"),
    ],
)
def test_broken_environment_is_listed_and_made_anew(
    path: str, text: str | None, fault: str, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = made / "library" / path
    broken.unlink()
    if text is not None:
        broken.write_text(text)

    assert f"broken: {fault}" in run("list").stdout
    python = making.make_environment("library")

    assert f"The environment of library is broken ({fault}), and is made anew." in capsys.readouterr().err
    assert Path(python).is_file()
    assert (made / "library/lib/python3/site-packages/library.py").read_text() == "NUMBER = 1\n"


def test_environment_of_a_wheel_with_wrong_sizes_is_ready(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def install(command: list[str], adapter: str, task: object) -> None:
        pretend(command, adapter, task)
        for record in (made / "library").rglob("RECORD"):
            record.write_text("library.py,sha256=0,12\n")

    monkeypatch.setattr(making, "_run", install)
    run("remove", "library")
    library = Path(making.make_environment("library")).parents[1] / "lib/python3/site-packages/library.py"

    assert "broken" not in run("list").stdout
    library.write_text("NUMBER")
    assert "library.py is cut off" in run("list").stdout


def test_unfinished_environment_is_made_anew(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (made / "library" / "gradclip-ready").unlink()
    (made / "library" / "rest").touch()

    assert "unfinished" in run("list").stdout
    making.make_environment("library")

    assert "was not finished, and is made anew" in capsys.readouterr().err
    assert not (made / "library" / "rest").exists()


def test_folder_of_the_user_is_never_touched(made: Path) -> None:
    for file in (made / "library" / "gradclip-ready", made / "library" / "gradclip-environment.json"):
        file.unlink()

    python = making.make_environment("library")

    assert Path(python).parents[1].name.startswith("library-")
    assert (made / "library" / "lib").is_dir()
    assert run("remove", "library").exit_code == 2
    assert run("remove", "--all").exit_code == 0
    assert [path.name for path in made.iterdir() if path.is_dir()] == ["library"]


def test_environments_are_listed_and_removed(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = run("list").stdout
    assert "library  0 MB, ready\n    library==1\n" in listed
    assert run("remove", "--stale").stdout == "There is nothing to remove.\n"

    set_recipe(monkeypatch, recipes.Recipe(("library",), None, ("library==2",)))
    assert "library  0 MB, of another recipe or another Python" in run("list").stdout
    with FileLock(made / "library.lock"):
        held = run("remove", "library")
    assert held.exit_code == 3
    assert "Another process is making" in held.stderr
    assert run("remove", "--stale").stdout == "removed library, 0 MB\n"
    assert "There are no environments" in run("list").stdout


@pytest.mark.parametrize("arguments", [(), ("library", "--all"), ("--all", "--stale"), ("nothing",)])
def test_removal_must_be_told_what_to_remove(arguments: tuple[str, ...], folder: Path) -> None:
    assert run("remove", *arguments).exit_code == 2
    assert not folder.exists()


@pytest.mark.thorough(sample=0)
@pytest.mark.skipif(os.name == "nt", reason="the pretended environment has the folders of Linux")
def test_first_import_that_compiles_is_a_part_of_making(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = recipes.Recipe(("library",), None, ("library==1",), compiles=True)
    monkeypatch.setattr(recipes, "read_recipes", lambda: {"numpy": recipe, "library": recipe})
    monkeypatch.setattr(making, "_run", pretend)
    started: list[list[str]] = []

    class Recorded(making.HostProcess):
        def __init__(self, command: list[str], **options: float) -> None:
            started.append(command)
            super().__init__(command, **options)

    monkeypatch.setattr(making, "HostProcess", Recorded)
    python = making.make_environment("numpy")
    assert making.make_environment("numpy") == python
    assert [(command[0], command[-1]) for command in started] == [(python, "numpy")]
    assert "the first import compiles the framework" in capsys.readouterr().err

    # An environment whose framework does not start is not ready, and the next run makes it anew.
    for _ in range(2):
        with pytest.raises(folders.EnvironmentProblem, match="The first start in the new environment of 'library'"):
            making.make_environment("library")
    assert "was not finished, and is made anew" in capsys.readouterr().err
    assert len(started) == 3


def test_installation_reports_downloads_and_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = [
        "Collecting torch==2.13.0",
        "  Downloading https://x/torch-2.13.0-cp311.whl (175.3 MB)",
        "Installing collected packages: numpy, torch",
        "ERROR: No space left on device",
    ]
    program = f"import sys; print(*{said!r}, sep='\\n'); sys.exit(1)"

    with (
        pytest.raises(folders.EnvironmentProblem, match=r"(?s)failed at `-c .*No space left on device$"),
        making.show_task("Making it") as task,
    ):
        making._run([sys.executable, "-c", program], "library", task)

    assert capsys.readouterr().err == (
        "Making it\n  pip downloads torch-2.13.0-cp311.whl, 175.3 MB\n  pip installs 2 packages\n"
    )


def test_missing_interpreter_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PATH", "")

    with pytest.raises(folders.EnvironmentProblem, match=r"runs on Python 3\.2, .*`pyenv install 3\.2`"):
        making.find_interpreter("3.2", "library")

    # The newest interpreter is tried first, and an interpreter that does not run is skipped.
    for version in ("3.2.9", "3.2.10"):
        (tmp_path / "versions" / version / "bin").mkdir(parents=True)
        (tmp_path / "versions" / version / "bin" / "python").write_text("")
    with pytest.raises(folders.EnvironmentProblem, match=r"3\.2\.10.*3\.2\.9.* did not run as Python 3\.2"):
        making.find_interpreter("3.2", "library")


def test_npm_installs_packages_of_node_into_the_environment(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def install(command: list[str], adapter: str, task: object) -> None:
        commands.append(command)
        if command[0] != "npm":
            pretend(command, adapter, task)

    set_recipe(monkeypatch, recipes.Recipe(("library",), None, ("library==1",), npm=("@library/js@1.0",)))
    monkeypatch.setattr(making, "_run", install)
    monkeypatch.setattr(making.shutil, "which", lambda name: name)
    python = making.make_environment("library")

    # The environment of the recipe without packages of Node stays.
    folder = Path(python).parents[1]
    assert folder.name.startswith("library-")
    assert commands[-1][:4] == ["npm", "install", "--prefix", str(folder)]
    assert commands[-1][-1] == "@library/js@1.0"


def test_missing_npm_is_reported_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making.shutil, "which", lambda name: None)

    with pytest.raises(folders.EnvironmentProblem, match="there is no program npm: install Node"):
        making._find_npm("library")


@pytest.mark.parametrize(
    ("recipe", "is_here"),
    [
        (recipes.Recipe(("json", "csv")), True),
        (recipes.Recipe(("json", "no_such_backend")), False),
        (recipes.Recipe(("json",), npm=("@library/js@1.0",)), True),
        (recipes.Recipe(("json",), npm=("other@1.0",)), False),
    ],
)
def test_framework_is_here_only_if_all_its_modules_and_packages_of_node_are(
    recipe: recipes.Recipe, is_here: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "node_modules" / "@library/js").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    set_recipe(monkeypatch, recipe)

    assert recipes.is_framework_here("library") == is_here
