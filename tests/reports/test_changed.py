"""Check that a published record counts as out of date exactly if something that it was made of has changed."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "reports" / "published" / "changed.py"
#: Files of the suite. The tests copy only these, because reading all takes seconds.
SUITE = (
    "judge/judging.py",
    "accuracy/measure.py",
    "cli/check.py",
    "run/environments/making.py",
    "known/expectations/optax.toml",
)
#: Records of different adapters, and one of an older version.
NAMES = ("numpy", "torch", "opacus", "optax", "optax@0.1.9", "paddle-fluid", "tensorflow-js")


KINDS = ("records", "accuracy")


def compute_all(program: Any, kind: str) -> dict[str, str]:
    """Return the fingerprint of each record, or of each measurement of accuracy."""
    return {name: program.compute_fingerprint(kind, name) for name in NAMES}


def load_program() -> Any:
    """Return the program as a module of its own, so that nothing that it has read is kept."""
    spec = importlib.util.spec_from_file_location("changed", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def find_changed(tmp_path: Path) -> Callable[..., list[str]]:
    """Return a function that edits a file of a copy of the packages, and returns which records are out of date then."""
    program = load_program()
    folders = {}
    for package in ("ADAPTERS", "SPEC"):
        folders[package] = tmp_path / package
        shutil.copytree(getattr(program, package), folders[package], ignore=shutil.ignore_patterns("__pycache__"))
    folders["SUITE"] = tmp_path / "SUITE"
    for path in SUITE:
        (folders["SUITE"] / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(program.SUITE / path, folders["SUITE"] / path)

    def load() -> Any:
        module = load_program()
        for package, folder in folders.items():
            setattr(module, package, folder)
        return module

    before = {kind: compute_all(load(), kind) for kind in KINDS}

    def edit(package: str, path: str, edit_text: Callable[[str], str], kind: str = "records") -> list[str]:
        file = folders[package] / path
        text = file.read_text(encoding="utf-8")
        assert edit_text(text) != text
        file.write_text(edit_text(text), encoding="utf-8")
        now = compute_all(load(), kind)
        return [name for name in NAMES if now[name] != before[kind][name]]

    return edit


def add_code(text: str) -> str:
    """Add a line that does something."""
    return text + "\nADDED = 1\n"


@pytest.mark.parametrize(
    ("package", "path", "changed"),
    [
        ("ADAPTERS", "frameworks/optax.py", ["optax", "optax@0.1.9"]),
        ("ADAPTERS", "frameworks/torch_based/opacus.py", ["opacus"]),
        # The adapter of the reference imports this module for gradients of torch.
        ("ADAPTERS", "frameworks/torch_based/parameters.py", ["numpy", "torch", "opacus"]),
        ("ADAPTERS", "frameworks/tensorflow_js.js", ["tensorflow-js"]),
        ("ADAPTERS", "contract.py", list(NAMES)),
        ("SPEC", "_clip.py", ["numpy"]),
        ("SUITE", "judge/judging.py", list(NAMES)),
        ("SUITE", "cli/check.py", []),
        ("SUITE", "run/environments/making.py", []),
    ],
)
def test_code_changes_the_records_that_are_made_with_it(
    find_changed: Callable[..., list[str]], package: str, path: str, changed: list[str]
) -> None:
    assert find_changed(package, path, add_code) == changed


@pytest.mark.parametrize(
    ("package", "path", "changed"),
    [
        ("SUITE", "known/expectations/optax.toml", ["optax", "optax@0.1.9"]),
        ("ADAPTERS", "claims/torch.toml", ["torch"]),
        ("SPEC", "rules/causes.toml", list(NAMES)),
    ],
)
def test_data_changes_the_records_that_are_made_with_it(
    find_changed: Callable[..., list[str]], package: str, path: str, changed: list[str]
) -> None:
    assert find_changed(package, path, lambda text: text + "\n[added]\nkey = 1\n") == changed


@pytest.mark.parametrize(
    ("versions", "changed"),
    [("<=0.1.9", ["optax@0.1.9"]), (">0.1.9", ["optax"]), (">=0.1", ["optax", "optax@0.1.9"]), (">1", [])],
)
def test_known_failure_changes_the_records_of_its_versions(
    find_changed: Callable[..., list[str]], versions: str, changed: list[str]
) -> None:
    entry = f'\n[[known]]\ncause = "raises"\nversions = "{versions}"\n'

    assert find_changed("SUITE", "known/expectations/optax.toml", lambda text: text + entry) == changed


@pytest.mark.parametrize(
    ("package", "path", "edit_text"),
    [
        ("SUITE", "judge/judging.py", lambda text: text + "\n# A comment.\n"),
        ("SUITE", "judge/judging.py", lambda text: re.sub(r'^"""', '"""Newly: ', text, count=1)),
        ("SUITE", "known/expectations/optax.toml", lambda text: "# A comment.\n" + text),
        # These are the same versions among those that have records.
        (
            "SUITE",
            "known/expectations/optax.toml",
            lambda text: text.replace('versions = "<=0.2.2"', 'versions = "<0.2.3"'),
        ),
    ],
    ids=["comment", "docstring", "comment in data", "same versions"],
)
def test_comments_and_other_words_for_the_same_change_nothing(
    find_changed: Callable[..., list[str]], package: str, path: str, edit_text: Callable[[str], str]
) -> None:
    assert find_changed(package, path, edit_text) == []


@pytest.mark.parametrize(
    ("package", "path", "changed"),
    [
        ("SUITE", "judge/judging.py", []),
        ("SUITE", "accuracy/measure.py", list(NAMES)),
        ("SUITE", "known/expectations/optax.toml", []),
        ("ADAPTERS", "claims/torch.toml", ["torch"]),
        ("ADAPTERS", "frameworks/optax.py", ["optax", "optax@0.1.9"]),
        ("SPEC", "_clip.py", ["numpy"]),
    ],
)
def test_accuracy_is_out_of_date_if_what_measures_or_is_measured_has_changed(
    find_changed: Callable[..., list[str]], package: str, path: str, changed: list[str]
) -> None:
    added = "\n[added]\nkey = 1\n" if path.endswith(".toml") else "\nADDED = 1\n"

    assert find_changed(package, path, lambda text: text + added, "accuracy") == changed


def test_noted_record_is_not_listed(tmp_path: Path) -> None:
    program = load_program()
    program.NOTES = tmp_path / "made_of.json"
    every = program.list_names()
    assert program.list_changed("records") == every
    assert program.list_changed("accuracy") == [name for name in every if "@" not in name]

    # A prefix stands for the newest known version, as in `gradclip check optax@0.1`.
    program.note("records", ["numpy", "optax@0.1"])
    program.note("accuracy", ["torch"])

    assert sorted({*every} - {*program.list_changed("records")}) == ["numpy", "optax@0.1.9"]
    assert "torch" not in program.list_changed("accuracy")
    noted = json.loads(program.NOTES.read_text(encoding="utf-8"))
    assert {kind: list(names) for kind, names in noted.items()} == {
        "records": ["numpy", "optax@0.1.9"],
        "accuracy": ["torch"],
    }
