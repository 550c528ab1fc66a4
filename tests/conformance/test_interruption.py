"""Check that `gradclip check`, when interrupted, says so, closes its record as incomplete and ends its processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradclip_reports.records import RecordError, read_runs

#: A limit in seconds for steps that end by themselves. It is far above the time that any machine needs.
LONG = 200

HOSTS = Path(__file__).with_name("hosts")
MAIN = [sys.executable, "-c", "from gradclip_conformance.cli import main; main()"]
NARROW = ["--rule", "norm.each-tensor-alone", "--dtype", "float32", "--timeout", "100"]

pytestmark = [
    pytest.mark.usefixtures("nothing_left_behind"),
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no POSIX signals"),
]


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start a real `gradclip check` that reacts to Ctrl-C, which a background job of a shell ignores."""
    command = [*MAIN, "check", *arguments, *NARROW]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)


def wait_for_cells(record: Path, count: int) -> None:
    """Wait until the record holds this many cells."""
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        if record.exists() and record.read_text(encoding="utf-8").count('"record": "cell"') >= count:
            return
        time.sleep(0.05)
    pytest.fail(f"{record} did not reach {count} cells")


def wait_for_progress(process: subprocess.Popen[str], words: str) -> None:
    """Wait until the run reports this progress on standard error."""
    assert process.stderr is not None
    assert any(words in line for line in process.stderr), f"the run ended and never said {words!r}"


def read_lines(record: Path) -> list[dict[str, Any]]:
    """Return the lines of a record."""
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]


@pytest.mark.exam(sample=1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("host", ["hangs", "hangs_with_a_child"])
def test_interrupted_run_is_incomplete_and_says_so(number: signal.Signals, host: str, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    process = start(str(HOSTS / f"{host}.py"), "-o", str(record))
    wait_for_cells(record, 1)
    # Wait until the call that hangs has started.
    time.sleep(0.5)

    process.send_signal(number)
    _, said = process.communicate(timeout=LONG)

    assert process.returncode == 3, said
    assert "incomplete" in said
    assert "Traceback" not in said
    footer = read_lines(record)[-1]
    assert (footer["record"], footer["incomplete"], footer["planned"], footer["finished"]) == ("footer", True, 3, 1)
    with pytest.raises(RecordError, match="was broken off: 2 of 3 cells did not run"):
        read_runs(record)
    (run,) = read_runs(record, allow_incomplete=True)
    assert [cell.status for cell in run.cells] == ["pass"]


def test_complete_runs_are_kept_and_shown(tmp_path: Path) -> None:
    process = start(str(HOSTS / "right.py"), str(HOSTS / "hangs.py"), "-o", str(tmp_path) + "/")
    wait_for_cells(tmp_path / "hangs.jsonl", 1)

    process.send_signal(signal.SIGINT)
    shown, said = process.communicate(timeout=LONG)

    assert process.returncode == 3, said
    assert "rules kept 1 of 1 tested" in shown
    (run,) = read_runs(tmp_path / "right.jsonl")
    assert len(run.cells) == 3
    assert read_lines(tmp_path / "hangs.jsonl")[-1]["incomplete"]


#: This adapter starts once. If it is started again, it leaves a mark and never gets ready.
STARTS_ONCE = """
import sys, time
from pathlib import Path
sys.path.append({hosts!r})
from hangs import Fake as adapter
try:
    Path({folder!r}, "started").mkdir()
except FileExistsError:
    Path({folder!r}, "starts again").touch()
    time.sleep(3600)
"""


@pytest.fixture
def starts_once(tmp_path: Path) -> Path:
    """Return an adapter whose first host starts and whose other hosts never get ready."""
    path = tmp_path / "starts_once.py"
    path.write_text(STARTS_ONCE.format(hosts=str(HOSTS), folder=str(tmp_path)), encoding="utf-8")
    return path


def wait_for_file(path: Path) -> None:
    """Wait until a file exists."""
    deadline = time.monotonic() + LONG
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.05)


def test_interruption_while_an_adapter_starts_ends_the_host(
    starts_once: Path, left_behind: Callable[[], list[Any]]
) -> None:
    starts_once.with_name("started").mkdir()
    process = start(str(starts_once), "-o", str(starts_once.with_name("record.jsonl")))
    wait_for_file(starts_once.with_name("starts again"))

    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=LONG)

    left = left_behind()
    assert process.returncode == 3, said
    assert "incomplete" in said
    assert not left


def test_hosts_that_start_while_a_run_is_stopped_are_ended(
    starts_once: Path, left_behind: Callable[[], list[Any]]
) -> None:
    record = starts_once.with_name("record.jsonl")
    process = start(str(starts_once), "-o", str(record), "--jobs", "3")
    wait_for_cells(record, 1)
    wait_for_file(starts_once.with_name("starts again"))

    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=LONG)

    left = left_behind()
    assert process.returncode == 3, said
    assert not left


@pytest.mark.exam(sample=0)
def test_several_jobs_are_all_ended(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    process = start(str(HOSTS / "hangs.py"), "-o", str(record), "--jobs", "3")
    # The record holds only the first cell, because the second hangs. The progress shows both.
    wait_for_progress(process, "2 of 3")
    time.sleep(0.5)

    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=LONG)

    assert process.returncode == 3, said
    footer = read_lines(record)[-1]
    assert (footer["incomplete"], footer["planned"], footer["finished"]) == (True, 3, 2)
