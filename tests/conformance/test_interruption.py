"""Check that `gradclip check`, when interrupted, says so, leaves what is finished, and ends its processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from runs import run_command
from sample_runs import make_header, make_run, write_record_text

from gradclip_conformance.run.record_file import RecordFile
from gradclip_reports.records import RecordError, read_partial, read_runs

#: A limit in seconds for steps that end by themselves. It is far above the time that any machine needs.
LONG = 200

HOSTS = Path(__file__).with_name("hosts")
MAIN = [sys.executable, "-c", "from gradclip_conformance.cli import main; main()"]
NARROW = ["--rule", "norm.each-tensor-alone", "--dtype", "float32", "--timeout", "100"]

RUN = make_run(make_header(), [])
#: The record of this run.
TEXT = write_record_text([RUN])

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


def interrupt(process: subprocess.Popen[str], number: signal.Signals = signal.SIGINT) -> tuple[str, str]:
    """Send a signal to a check, which must say that it is incomplete. Return all that it printed."""
    process.send_signal(number)
    shown, said = process.communicate(timeout=LONG)
    assert process.returncode == 3, said
    assert "incomplete" in said
    return shown, said


def wait_for_file(path: Path, text: str = "") -> None:
    """Wait until a file exists and holds a text."""
    deadline = time.monotonic() + LONG
    while not (path.exists() and text in path.read_text(encoding="utf-8")):
        assert time.monotonic() < deadline, f"{path} did not appear, or does not hold {text!r}"
        time.sleep(0.05)


def wait_for_cell(record: Path) -> None:
    wait_for_file(record.with_name(f"{record.name}.part"), '"record": "cell"')


def read_lines(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("way", ["hang", "hang_with_a_child"])
def test_interrupted_run_is_incomplete_and_says_so(
    number: signal.Signals, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "record.jsonl"
    monkeypatch.setenv("GRADCLIP_FAKE", way)
    process = start(str(HOSTS / "misbehaves.py"), "-o", str(record))
    wait_for_cell(record)
    # Wait until the call that hangs has started.
    time.sleep(0.5)

    _, said = interrupt(process, number)

    assert "Traceback" not in said
    assert f"--resume {record}" in " ".join(said.split())
    assert not record.exists()
    journal = tmp_path / "record.jsonl.part"
    with pytest.raises(RecordError, match="has no footer"):
        read_runs(journal)
    assert [cell.status for cell in read_partial(journal).cells] == ["pass"]


@pytest.mark.thorough(sample=0)
def test_complete_runs_are_kept_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADCLIP_FAKE", "hang")
    process = start(str(HOSTS / "right.py"), str(HOSTS / "misbehaves.py"), "-o", str(tmp_path) + "/")
    wait_for_cell(tmp_path / "misbehaves.jsonl")

    shown, _ = interrupt(process)

    assert "rules kept 1 of 1 tested" in shown
    (run,) = read_runs(tmp_path / "right.jsonl")
    assert len(run.cells) == 3
    assert [line["record"] for line in read_lines(tmp_path / "misbehaves.jsonl.part")] == ["header", "cell"]


#: This adapter starts once. If it is started again, it leaves a mark and never gets ready.
STARTS_ONCE = """
import sys, time
from pathlib import Path
sys.path.append({hosts!r})
from misbehaves import Fake as adapter
try:
    Path({folder!r}, "started").mkdir()
except FileExistsError:
    Path({folder!r}, "starts again").touch()
    time.sleep(3600)
"""


@pytest.fixture
def starts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an adapter whose first host starts and whose other hosts never get ready."""
    monkeypatch.setenv("GRADCLIP_FAKE", "hang")
    path = tmp_path / "starts_once.py"
    path.write_text(STARTS_ONCE.format(hosts=str(HOSTS), folder=str(tmp_path)), encoding="utf-8")
    return path


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("jobs", [1, 3])
def test_hosts_that_start_while_a_run_is_stopped_are_ended(jobs: int, starts_once: Path) -> None:
    record = starts_once.with_name("record.jsonl")
    if jobs == 1:
        # Even the first host never gets ready.
        starts_once.with_name("started").mkdir()
    process = start(str(starts_once), "-o", str(record), "--jobs", str(jobs))
    if jobs > 1:
        wait_for_cell(record)
    wait_for_file(starts_once.with_name("starts again"))

    interrupt(process)


#: A function that is wrong above the threshold, so that some cells pass and others have findings.
HALVES = """
import numpy as np


def clip(grads, *, clip_norm):
    norm = np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in grads))
    factor = clip_norm / norm / 2 if norm > clip_norm else 1.0
    return [(g * factor).astype(g.dtype) for g in grads]
"""
#: A few cells, which pass or fail, and a few rows.
FEW = ["--op", "clip_by_global_norm", "--dtype", "float32", "--rows", "5"]
FEW += [f"--rule=*.{name}" for name in ("single-tensor", "identity-below", "combinations")]


@pytest.fixture(scope="module")
def function(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the name of the function in a file."""
    path = tmp_path_factory.mktemp("function") / "halves.py"
    path.write_text(HALVES, encoding="utf-8")
    return f"{path}:clip"


@pytest.fixture(scope="module")
def finished(function: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the text of the record of a run without a break."""
    whole = tmp_path_factory.mktemp("finished") / "whole.jsonl"
    assert run_command("check", function, *FEW, "-o", whole).exit_code == 1
    return whole.read_text(encoding="utf-8")


class TestResume:
    """A run that was cut off goes on, and its record is that of a run without a break, apart from times."""

    def read_without_times(self, text: str) -> list[dict[str, Any]]:
        return [
            {name: value for name, value in json.loads(line).items() if name not in ("seconds", "started")}
            for line in text.splitlines()
        ]

    @pytest.mark.thorough(sample=2)
    @pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
    def test_record_equals_that_of_a_whole_run(
        self, share: float, finished: str, function: str, tmp_path: Path
    ) -> None:
        cut = tmp_path / "cut.jsonl"
        header, *others = finished.splitlines(keepends=True)
        cells = [line for line in others if '"record": "cell"' in line]
        kept = cells[: int(share * len(cells))]
        # A process that is killed may leave half of a line.
        journal = "".join([header, *kept, cells[-1][:50]])
        cut.with_name("cut.jsonl.part").write_text(journal, encoding="utf-8")

        result = run_command("check", *([function] if share else []), *FEW, "--resume", str(cut))

        assert result.exit_code == 1, result.output
        assert self.read_without_times(cut.read_text(encoding="utf-8")) == self.read_without_times(finished)
        assert list(tmp_path.glob("*.jsonl*")) == [cut]

    @pytest.mark.thorough(sample=0)
    def test_other_options_and_other_runs_are_refused(
        self, finished: str, function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        journal = tmp_path / "cut.jsonl.part"
        journal.write_text(finished, encoding="utf-8")

        narrower = run_command("check", function, *FEW[:-1], "--resume", "cut.jsonl")
        other_seed = run_command("check", function, *FEW, "--seed", "7", "--resume", "cut.jsonl")

        assert (narrower.exit_code, other_seed.exit_code) == (3, 3)
        assert "it was made with other options" in " ".join(narrower.output.split())
        assert "it was made with another seed" in " ".join(other_seed.output.split())
        assert journal.is_file()

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["numpy", "--resume", "none.jsonl"], "nothing is there to go on with"),
            (["numpy", "--resume", "none.jsonl", "-o", "x.jsonl"], "no -o"),
            (["numpy", "torch", "--resume", "none.jsonl"], "name one adapter"),
        ],
    )
    def test_wrong_usage_is_refused(
        self, arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        result = run_command("check", *arguments)

        assert result.exit_code == 2
        assert says in " ".join(result.output.split())

    def test_part_is_shown_and_said_to_be_one(self, finished: str, tmp_path: Path) -> None:
        part = tmp_path / "cut.jsonl.part"
        part.write_text("".join(finished.splitlines(keepends=True)[:10]), encoding="utf-8")

        refused = run_command("summary", part)
        shown = run_command("summary", "--partial", part)
        site = run_command("report", "--partial", part, "-o", tmp_path / "site")

        assert (refused.exit_code, shown.exit_code, site.exit_code) == (3, 3, 0), site.output
        assert "This is a part" in shown.stderr
        (page,) = (tmp_path / "site" / "framework").glob("*.html")
        assert "This is a part" in page.read_text(encoding="utf-8")


class TestRecordFile:
    """Whatever fails, the old record stays whole, or the new one is whole."""

    def test_error_leaves_the_old_record_and_the_journal(self, tmp_path: Path) -> None:
        path = tmp_path / "record.jsonl"
        path.write_text("old", encoding="utf-8")

        def fail_while_writing() -> None:
            with RecordFile(path) as record:
                record.note(RUN.header)
                raise OSError

        with pytest.raises(OSError):
            fail_while_writing()

        assert path.read_text(encoding="utf-8") == "old"
        assert read_lines(tmp_path / "record.jsonl.part")[0]["record"] == "header"
        assert len(list(tmp_path.iterdir())) == 2

    def test_whole_record_replaces_the_old_one(self, tmp_path: Path) -> None:
        path = tmp_path / "record.jsonl"
        path.write_text("old", encoding="utf-8")

        for appends in (False, True):
            with RecordFile(path, appends=appends) as record:
                record.note(RUN.header)
                record.finish(RUN)

        assert path.read_text(encoding="utf-8") == 2 * TEXT
        assert list(tmp_path.iterdir()) == [path]

    def test_two_runs_do_not_write_one_record(self, tmp_path: Path) -> None:
        path = tmp_path / "record.jsonl"
        with RecordFile(path) as first:
            with pytest.raises(OSError, match=r"another run is writing record\.jsonl"), RecordFile(path):
                pass
            first.finish(RUN)

        assert path.read_text(encoding="utf-8") == TEXT

    def test_link_stays_a_link(self, tmp_path: Path) -> None:
        real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
        real.touch()
        link.symlink_to(real)

        with RecordFile(link) as record:
            record.finish(RUN)

        assert link.is_symlink()
        assert real.read_text(encoding="utf-8") == TEXT

    def test_device_is_written_and_never_replaced(self) -> None:
        with RecordFile(Path("/dev/null")) as record:
            record.note(RUN.header)
            record.finish(RUN)

        assert Path("/dev/null").is_char_device()
