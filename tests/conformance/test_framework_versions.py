"""Check that `gradclip check optax@0.1.9` finds, makes and names the version of a framework."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import click
import pytest
from runs import run_command

from gradclip_adapters import registry
from gradclip_conformance.cli import gradclip
from gradclip_conformance.cli.targets import complete_target
from gradclip_conformance.known.files import is_version_within
from gradclip_conformance.run.environments import making, recipes
from gradclip_reports.records import read_runs

#: The recipe of a framework that the suite knows in four versions.
LIBRARY = recipes.Recipe(
    ("library",),
    None,
    ("numpy<3", "library[cpu]==2.10.1"),
    100,
    framework="library[cpu]==2.10.1",
    others={
        version: recipes.Recipe(
            ("library",),
            "3.11",
            (f"library[cpu]=={version}", *pins),
            100,
            framework=f"library[cpu]=={version}",
        )
        for version, *pins in (("2.9.0", "numpy<2"), ("2.9.1", "numpy<2"), ("1.0", "numpy<1.20"))
    },
)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "library", "library:LibraryAdapter")
    monkeypatch.setattr(recipes, "read_recipes", lambda: {"library": LIBRARY, "numpy": recipes.Recipe(())})


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("library", "library"),
        # The version that the project tests has no sign in its name.
        ("library@2.10.1", "library"),
        ("library@2", "library"),
        # A beginning stands for its newest version, and 2.1 does not begin 2.10.
        ("library@2.9", "library@2.9.1"),
        ("library@2.9.0", "library@2.9.0"),
        ("library@2.1", "library@2.1"),
        ("library@1.0.0", "library@1.0"),
        ("library@3", "library@3"),
        ("other@2.9", "other@2.9"),
        ("folder@2/library", "folder@2/library"),
    ],
)
def test_beginning_of_a_version_stands_for_the_newest_known_one(name: str, chosen: str) -> None:
    assert recipes.choose_version(name) == chosen


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("name", "requirements"),
    [
        ("library", ("numpy<3", "library[cpu]==2.10.1")),
        ("library@2.9", ("library[cpu]==2.9.1", "numpy<2")),
        # The requirements of an unknown version are those of the next older one, or of the oldest.
        ("library@2.9.5", ("library[cpu]==2.9.5.*", "numpy<2")),
        ("library@3", ("numpy<3", "library[cpu]==3.*")),
        ("library@0.5", ("library[cpu]==0.5.*", "numpy<1.20")),
    ],
)
def test_version_that_is_not_known_gets_the_requirements_of_its_neighbour(
    name: str, requirements: tuple[str, ...]
) -> None:
    recipe = recipes.find_recipe(name)

    assert recipe is not None
    assert recipe.requirements == requirements


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("tensorflow-js", "@tensorflow/tfjs@4.22.0"),
        ("tensorflow-js@3", "@tensorflow/tfjs@3.21.0"),
        # npm takes the newest version that begins so.
        ("tensorflow-js@4.1", "@tensorflow/tfjs@4.1"),
    ],
)
def test_version_of_a_package_for_node_is_chosen_in_the_same_way(name: str, package: str) -> None:
    recipe = recipes.find_recipe(name)

    assert recipe is not None
    assert (recipe.framework, recipe.npm) == (package, (package,))
    assert recipe.requirements == ("numpy",)


@pytest.mark.parametrize("name", ["no-such-library", "no-such-library@1", "numpy@1", "reference-torch@2"])
def test_adapter_without_a_pinned_framework_has_no_versions(name: str) -> None:
    assert recipes.find_recipe(name) is None
    assert recipes.list_versions(name) == []


def test_every_older_version_is_older_and_names_its_python() -> None:
    for adapter, recipe in recipes.read_recipes().items():
        known_versions = recipes.list_versions(adapter)
        assert known_versions[:1] == ([recipe.version] if recipe.version else []), adapter
        # The file lists the newest first.
        assert known_versions[1:] == list(recipe.others)
        assert all(one.python for one in recipe.others.values())
        assert all(is_version_within(one, f"<{recipe.version}") for one in recipe.others)


def test_package_to_install_alone_must_be_required() -> None:
    with pytest.raises(ValueError, match="'other' is to be installed alone, and no requirement names it"):
        recipes._make_other(LIBRARY, "2.9.0", {"python": "3.11", "alone": ["other"]})


@pytest.mark.parametrize(
    ("wanted", "version", "matches"),
    [
        ("2.6", "2.6.2", True),
        ("2.6", "2.6.0+cpu", True),
        ("2.6.0", "2.6", True),
        ("2.6", "2.60", False),
        ("2.6.1", "2.6", False),
        ("2", "unknown", False),
    ],
)
def test_version_matches_its_beginning(wanted: str, version: str, matches: bool) -> None:
    assert recipes.matches_version(wanted, version) == matches


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("optax@new", 2, "'new' is no version, or beginning of one, of optax. Known versions: "),
        ("no-such@1", 2, "There is no adapter 'no-such@1'"),
        ("numpy@1", 3, "numpy@1 does not start (other-version): this Python has gradclip_spec on NumPy "),
    ],
)
def test_version_that_is_not_there_is_named(name: str, code: int, said: str) -> None:
    result = run_command("check", name)

    assert result.exit_code == code, result.output
    assert said in result.stderr


def test_versions_are_listed_and_completed() -> None:
    known_versions = recipes.list_versions("chainer")

    assert (
        f"versions: {', '.join(known_versions)} (for example chainer@{known_versions[-1]})"
        in run_command("adapters").stdout
    )
    context = click.Context(gradclip)
    offered = [item.value for item in complete_target(context, click.Argument(["adapters"]), "chainer@")]
    assert offered == [f"chainer@{version}" for version in known_versions]


#: A framework whose version 1 forgets to clip, with its adapter.
MODULE = """
from gradclip_adapters.contract import About, Adapter, Array, Reply, EntryPoint

class LibraryAdapter(Adapter):
    def about(self):
        return About("Library", "{version}", {{}})

    def subjects(self):
        return [EntryPoint("library.clip", "clip_by_value", ("float32",), ("functional", "min_max"))]

    def call(self, call):
        arrays, largest = [gradient.array.numpy() for gradient in call.gradients], call.options["max"]
        if {version!r} >= "2":
            arrays = [array.clip(call.options.get("min", -largest), largest) for array in arrays]
        return Reply(tuple(map(Array.of, arrays)))
"""


def write_wheel(folder: Path, version: str, needs: str = "") -> None:
    """Write a wheel of the framework, which may need another package."""
    info = f"library-{version}.dist-info"
    files = {
        "library.py": MODULE.format(version=version),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: library\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[gradclip.adapters]\nlibrary = library:LibraryAdapter\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"library-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(name, text)


@pytest.fixture
def installable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Offer wheels of the framework to pip, and know two of three versions. Return the folder of environments."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for version in ("1.0.0", "1.5.0", "2.0.0"):
        write_wheel(wheels, version)
    environment = {
        "GRADCLIP_VENVS": tmp_path / "environments",
        "PIP_FIND_LINKS": wheels,
        "PIP_NO_INDEX": "1",
        # The environment itself has no NumPy.
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))

    def make(version: str, **others: recipes.Recipe) -> recipes.Recipe:
        requirement = f"library=={version}"
        return recipes.Recipe(("library",), None, (requirement,), framework=requirement, others=others)

    library = make("2.0.0", **{"1.0.0": make("1.0.0")})
    monkeypatch.setitem(registry.BUILT_IN, "library", "library:LibraryAdapter")
    monkeypatch.setitem(recipes.read_recipes(), "library", library)
    return tmp_path / "environments"


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("version", ["library", "library@1.0.0"])
def test_package_is_installed_without_its_requirements(
    version: str, installable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("1.0.0", "2.0.0"):
        write_wheel(tmp_path / "wheels", each, "Requires-Dist: a-package-that-no-index-has\n")
    older = recipes.Recipe(("library",), None, ("pip",), framework="library==1.0.0", alone=("library==1.0.0",))
    library = replace(older, framework="library==2.0.0", alone=("library==2.0.0",), others={"1.0.0": older})
    monkeypatch.setitem(recipes.read_recipes(), "library", library)

    python = making.make_environment(version)

    program = "from importlib.metadata import version; print(version('library'))"
    found = subprocess.run([python, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert found.stdout.strip() == ("1.0.0" if "@" in version else "2.0.0")


@pytest.mark.thorough(sample=0)
def test_versions_are_made_checked_and_compared(installable: Path, tmp_path: Path) -> None:
    narrow = ("--rule", "value.bounds", "--dtype", "float32")
    checked = run_command(
        "check", "library@1.0", "library@1.5", "library", "--venv", *narrow, "-o", f"{tmp_path}/records/"
    )

    assert checked.exit_code == 1, checked.output
    records = sorted((tmp_path / "records").iterdir())
    assert [path.name for path in records] == ["library-1.0.0.jsonl", "library-1.5.jsonl", "library.jsonl"]
    (old,), (middle,), (new,) = map(read_runs, records)
    assert [one.header.adapter for one in (old, middle, new)] == ["library"] * 3
    assert [one.header.heading for one in (old, middle, new)] == ["Library 1.0.0", "Library 1.5.0", "Library 2.0.0"]
    assert "1.5 is not among the versions of library that the suite knows: 2.0.0, 1.0.0." in checked.stderr
    failing = [{cell.status for cell in one.cells} for one in (old, middle, new)]
    assert failing == [{"fail"}, {"fail"}, {"pass"}]

    listed = run_command("env", "list").stdout
    found = re.findall("(?m)^(library.*)  .* MB, ready$", listed)
    assert found == ["library", "library@1.0.0", "library@1.5"]
    compared = run_command("diff", "library@1.0.0", "library@2", "--venv", "--dtype", "float32")
    assert "1.0.0" in compared.stdout
    assert "2.0.0" in compared.stdout

    python = making.make_environment("library@1")
    assert Path(python).is_relative_to(installable / "library@1.0.0")
    assert run_command("smoke", "library@1", "--python", f"library@1={python}").exit_code == 1
    other = run_command("smoke", "library@2", "--python", python)
    assert other.exit_code == 3
    assert "library@2 does not start (other-version): this Python has Library 1.0.0, not version 2" in other.stderr

    assert run_command("env", "remove", "library@1.5").exit_code == 0
