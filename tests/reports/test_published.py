"""The published records are whole, and the README's matrix is made from them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from gradclip_reports.records import read_runs

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "reports" / "published"
RECORDS = sorted(PUBLISHED.glob("*.jsonl"))


def test_every_framework_is_published() -> None:
    assert {"numpy", "torch", "paddle", "paddle-fluid", "tensorflow"} <= {path.stem for path in RECORDS}


@pytest.mark.exam(sample=1)
@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_is_whole_and_holds_no_path_of_a_machine(path: Path) -> None:
    (run,) = read_runs(path)

    assert run.footer.finished == run.footer.planned == len(run.cells)
    assert "/home/" not in path.read_text(encoding="utf-8")


@pytest.mark.exam(sample=0)
def test_the_readme_shows_the_published_records() -> None:
    script = runpy.run_path(str(PUBLISHED / "update_readme.py"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert script["updated"](readme) == readme, "README.md is stale: run `nox -s report`"
