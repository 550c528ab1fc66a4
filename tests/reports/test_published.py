"""Check that the published records are whole, and that the README and the matrix show them."""

from __future__ import annotations

import gzip
import runpy
from pathlib import Path

import pytest

from gradclip_reports.counting import count_explained
from gradclip_reports.records import read_runs

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "reports" / "published"
RECORDS = sorted(PUBLISHED.glob("*.jsonl.gz"))

pytestmark = pytest.mark.skipif(
    not (ROOT / ".github").is_dir(), reason="a checkout is missing: source distributions hold no records"
)


def test_every_framework_has_a_record() -> None:
    assert {"numpy", "optax", "torch", "paddle", "paddle-fluid", "tensorflow"} <= {
        path.name.removesuffix(".jsonl.gz") for path in RECORDS
    }


@pytest.mark.exam(sample=1)
@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_record_is_whole_and_holds_no_path_of_a_machine(path: Path) -> None:
    (run,) = read_runs(path)

    differing, explained = count_explained([run])
    assert explained >= 0.98 * differing
    assert run.footer.finished == run.footer.planned == len(run.cells)
    assert b"/home/" not in gzip.decompress(path.read_bytes())


@pytest.mark.exam(sample=0)
def test_readme_pages_and_picture_show_the_published_records(monkeypatch: pytest.MonkeyPatch) -> None:
    script = runpy.run_path(str(PUBLISHED / "update_readme.py"))
    monkeypatch.setattr("sys.argv", ["update_readme.py", "--check"])

    assert script["main"]() == 0, "run `nox -s report`"
