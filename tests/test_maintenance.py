"""Check that the files for maintainers agree with each other, and that each version is written once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from frameworks import RECIPES

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = ROOT / ".github" / "workflows"

ENVIRONMENTS = tomllib.loads(
    (ROOT / "adapters" / "gradclip_adapters" / "environments.toml").read_text(encoding="utf-8")
)
VERSIONS: dict[str, str] = ENVIRONMENTS["versions"]

# A source distribution does not contain the files for maintainers.
pytestmark = pytest.mark.skipif(not WORKFLOWS.is_dir(), reason="a checkout is missing")


def test_pre_commit_uses_the_versions_of_the_lint_session() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    pinned = set(re.findall(r"[\w-]+==[\w.]+", hooks))

    assert pinned
    assert pinned <= set(PROJECT["dependency-groups"]["lint"])


def test_continuous_integration_covers_every_python_that_is_declared() -> None:
    declared = {
        found[1]
        for classifier in PROJECT["project"]["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", classifier))
    }
    (matrix,) = re.findall(r"python: (\[.*\])", (WORKFLOWS / "ci.yml").read_text(encoding="utf-8"))

    assert set(re.findall(r"3\.\d+", matrix)) == declared


@pytest.mark.parametrize("workflow", ["ci.yml", "frameworks.yml", "release.yml", "results.yml"])
def test_actions_are_pinned_by_commit(workflow: str) -> None:
    used = re.findall(r"uses: (.*)", (WORKFLOWS / workflow).read_text(encoding="utf-8"))

    assert used
    assert [line for line in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", line)] == []


def test_weekly_workflow_lists_every_framework_with_its_python(tmp_path: Path) -> None:
    text = (WORKFLOWS / "frameworks.yml").read_text(encoding="utf-8")
    script = textwrap.dedent(text.partition("        run: |\n")[2].partition("\n\n  adapter:")[0])
    output = tmp_path / "output"

    subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "GITHUB_OUTPUT": str(output)}, check=True
    )

    name, _, value = output.read_text(encoding="utf-8").partition("=")
    assert name == "frameworks"
    found = {one["name"]: one["python"] for one in json.loads(value)}
    assert found == {name: recipe.python or "3.11" for name, recipe in RECIPES.items()}


def test_workflow_of_a_release_has_the_python_of_every_framework() -> None:
    text = (WORKFLOWS / "results.yml").read_text(encoding="utf-8")
    every = [version for recipe in RECIPES.values() for version in (recipe, *recipe.others.values())]

    found = re.findall(r"^ +(3\.\d+)$", text, re.MULTILINE)

    assert set(found) == {version.python or "3.11" for version in every}
    assert found[-1] == "3.11"


def test_citation_names_the_version_that_is_released() -> None:
    (version,) = re.findall(r'^__version__ = "(.*)"$', (ROOT / "gradclip_spec/__init__.py").read_text("utf-8"), re.M)

    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def list_requirements() -> Iterator[str]:
    """Yield every requirement of pyproject.toml and of the table of versions."""
    project = PROJECT["project"]
    yield from project["dependencies"]
    for group in (*project["optional-dependencies"].values(), *PROJECT["dependency-groups"].values()):
        yield from (requirement for requirement in group if isinstance(requirement, str))
    yield from VERSIONS.values()


def test_requirements_with_a_version_are_written_once() -> None:
    with_version = [requirement for requirement in list_requirements() if re.search(r"[<>=~!]", requirement)]

    assert [requirement for requirement, count in Counter(with_version).items() if count > 1] == []


def test_versions_are_pinned_only_in_the_table() -> None:
    # A new release of a linter finds new faults in old code, so the linters are pinned, too.
    linters = PROJECT["dependency-groups"]["lint"]
    pinned = [requirement for requirement in list_requirements() if "==" in requirement and requirement not in linters]

    assert set(pinned) <= set(VERSIONS.values())


@pytest.mark.parametrize("path", ["noxfile.py", ".ci/run"])
def test_scripts_hold_no_version_of_a_framework(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    names = {re.split(r"[<>=\[]", requirement)[0] for requirement in VERSIONS.values()}

    assert not [name for name in names if re.search(rf"\b{name}(\[[\w,]+\])?[<>=~]=?[\d]", text)]


def list_needs(tables: dict[str, Any]) -> Iterator[str]:
    """Yield each short name that an adapter, a backend or a peer needs."""
    for table in tables["adapters"].values():
        yield from table.get("needs", ())
        yield from table.get("alone", ())
        yield from table.get("npm", ())
    for part in ("backends", "peers"):
        for needs in tables[part].values():
            yield from needs


def test_every_version_is_needed_and_every_need_has_a_version() -> None:
    assert set(list_needs(ENVIRONMENTS)) == set(VERSIONS)
