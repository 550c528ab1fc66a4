"""Check that each version that the project uses is written once."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ENVIRONMENTS = tomllib.loads(
    (ROOT / "adapters" / "gradclip_adapters" / "environments.toml").read_text(encoding="utf-8")
)
VERSIONS: dict[str, str] = ENVIRONMENTS["versions"]


def list_requirements() -> Iterator[str]:
    """Yield every requirement of pyproject.toml and of the table of versions."""
    project = PYPROJECT["project"]
    yield from project["dependencies"]
    for group in (*project["optional-dependencies"].values(), *PYPROJECT["dependency-groups"].values()):
        yield from (requirement for requirement in group if isinstance(requirement, str))
    yield from VERSIONS.values()


def test_requirements_with_a_version_are_written_once() -> None:
    with_version = [requirement for requirement in list_requirements() if re.search(r"[<>=~!]", requirement)]

    assert [requirement for requirement, count in Counter(with_version).items() if count > 1] == []


def test_versions_are_pinned_only_in_the_table() -> None:
    # A new release of a linter finds new faults in old code, so the linters are pinned, too.
    linters = PYPROJECT["dependency-groups"]["lint"]
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
