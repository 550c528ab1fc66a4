"""Check that the program that makes the published records publishes whole records only."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gradclip_reports.records import read_runs

PUBLISHED = Path(__file__).resolve().parents[2] / "reports" / "published"
#: A name that no adapter has.
UNKNOWN = "no-such-framework"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the programs, and an old record."""
    for name in ("make_records.py", "changed.py"):
        shutil.copy(PUBLISHED / name, tmp_path)
    (tmp_path / "older").mkdir()
    (tmp_path / "numpy.jsonl.gz").write_bytes(b"old")
    return tmp_path


def make_records(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "make_records.py", *names]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=900)


@pytest.mark.exam(sample=0)
def test_record_is_published_and_noted_though_another_check_fails(folder: Path) -> None:
    done = make_records(folder, UNKNOWN, "numpy")

    (run,) = read_runs(folder / "numpy.jsonl.gz")
    assert run.footer.finished == run.footer.planned
    assert list(json.loads((folder / "made_of.json").read_text(encoding="utf-8"))["records"]) == ["numpy"]
    assert done.returncode == 1
    assert done.stderr.strip() == f"no new record: {UNKNOWN}"
    assert "numpy: as expected, " in done.stdout


def test_failed_check_leaves_the_old_record_and_says_why(folder: Path) -> None:
    done = make_records(folder, UNKNOWN)

    assert (folder / "numpy.jsonl.gz").read_bytes() == b"old"
    assert not (folder / "made_of.json").exists()
    assert done.returncode == 1
    assert f"'{UNKNOWN}'" in done.stdout
    assert f"{UNKNOWN}: no new record, " in done.stdout


@pytest.mark.exam(sample=0)
def test_accuracy_of_one_framework_keeps_that_of_others(folder: Path) -> None:
    others = [{"adapter": "torch", "framework": "torch", "version": "2", "rows": []}]
    (folder / "accuracy.json").write_text(json.dumps({"made": "2026-11-01", "frameworks": others}), encoding="utf-8")
    program = folder / "make_records.py"
    program.write_text(program.read_text(encoding="utf-8").replace("LARGEST = 10**7", "LARGEST = 100"), "utf-8")

    done = make_records(folder, "--accuracy", UNKNOWN, "numpy")

    frameworks = json.loads((folder / "accuracy.json").read_text(encoding="utf-8"))["frameworks"]
    assert [(one["adapter"], bool(one["rows"])) for one in frameworks] == [("numpy", True), ("torch", False)]
    assert (folder / "accuracy.md").read_text(encoding="utf-8").startswith("# How accurate")
    assert list(json.loads((folder / "made_of.json").read_text(encoding="utf-8"))["accuracy"]) == ["numpy"]
    assert done.returncode == 1
    assert done.stderr.strip() == f"no new measurement: {UNKNOWN}"


def test_framework_that_clips_by_value_only_has_nothing_to_measure(tmp_path: Path) -> None:
    function = tmp_path / "mine.py"
    function.write_text(
        "import numpy as np\n\n\ndef clip(gradients, max):\n    return [np.clip(one, -max, max) for one in gradients]\n"
    )
    program = PUBLISHED / "make_records.py"
    nothing = next(line for line in program.read_text("utf-8").splitlines() if line.startswith("NOTHING = "))
    command = [sys.executable, "-m", "gradclip_conformance", "accuracy", f"{function}:clip", "--op", "clip_by_value"]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    # The program recognizes such a framework by these words.
    assert nothing.removeprefix("NOTHING = ").strip('"') in done.stdout + done.stderr
    assert done.returncode == 3


def test_compressed_record_holds_no_time(folder: Path) -> None:
    (folder / "torch.jsonl").write_text("{}\n", encoding="utf-8")
    program = "from pathlib import Path; from make_records import publish; publish(Path('torch.jsonl'), Path('older'))"

    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, timeout=300)

    published = (folder / "older" / "torch.jsonl.gz").read_bytes()
    assert gzip.decompress(published) == b"{}\n"
    # These bytes of the header would hold the time. So the same record always gives the same bytes.
    assert published[4:8] == bytes(4)
