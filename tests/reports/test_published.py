"""Check that the published records are whole and that the README shows them."""

from __future__ import annotations

import gzip
import runpy
from pathlib import Path

import pytest

from gradclip_reports.records import read_runs

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "reports" / "published"
RECORDS = sorted(PUBLISHED.glob("*.jsonl.gz"))

pytestmark = pytest.mark.skipif(
    not (ROOT / ".github").is_dir(), reason="a checkout is missing: source distributions hold no records"
)


def test_every_framework_has_a_record() -> None:
    assert {"numpy", "torch", "paddle", "paddle-fluid", "tensorflow"} <= {
        path.name.removesuffix(".jsonl.gz") for path in RECORDS
    }


@pytest.mark.exam(sample=1)
@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_record_is_whole_and_holds_no_path_of_a_machine(path: Path) -> None:
    (run,) = read_runs(path)

    assert run.footer.finished == run.footer.planned == len(run.cells)
    assert b"/home/" not in gzip.decompress(path.read_bytes())


@pytest.mark.exam(sample=0)
def test_readme_shows_the_published_records() -> None:
    script = runpy.run_path(str(PUBLISHED / "update_readme.py"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert script["updated"](readme) == readme, "README.md is stale: run `nox -s report`"
