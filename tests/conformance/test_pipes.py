"""Check what the suite reads from a host, and where it stops reading."""

from __future__ import annotations

import io
import os
import threading

import pytest

from gradclip_conformance.run.pipes import TAIL_BYTES, UNASKED_LINES, LineReader, PipeFlooded, Tail


def make_reader(text: bytes, limit: int = 100) -> LineReader:
    """Return a reader of a pipe that holds this text, after the reader has finished."""
    readable, writable = os.pipe()
    with os.fdopen(writable, "wb") as stream:
        stream.write(text)
    reader = LineReader()
    before = set(threading.enumerate())
    reader.start(os.fdopen(readable, "rb"), limit)
    for thread in set(threading.enumerate()) - before:
        thread.join()
    return reader


def test_lines_come_one_by_one_and_then_the_end() -> None:
    reader = make_reader("one\n\nzwölf\nhalf".encode())

    assert [reader.read(1) for _ in range(5)] == ["one\n", "\n", "zwölf\n", "half", None]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_line_longer_than_its_limit_is_refused(end: bytes) -> None:
    with pytest.raises(PipeFlooded, match="a line of more than 100 bytes"):
        make_reader(b"x" * 101 + end).read(1)


def test_unrequested_lines_are_refused() -> None:
    reader = make_reader(b"x\n" * 1000)

    assert [reader.read(1) for _ in range(UNASKED_LINES)] == ["x\n"] * UNASKED_LINES
    with pytest.raises(PipeFlooded, match="unrequested lines"):
        reader.read(1)


def test_tail_keeps_only_the_last_lines() -> None:
    readable, writable = os.pipe()
    tail = Tail()
    tail.start(os.fdopen(readable, "rb"), lambda: None)
    with os.fdopen(writable, "wb") as stream:
        stream.write(b"x" * 10 * TAIL_BYTES + b"\n\nlast words\n")
    tail._ended.wait()

    assert tail.list_last_lines(1) == ["last words"]
    assert len(tail._kept) <= TAIL_BYTES


def test_host_that_writes_to_standard_error_without_an_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradclip_conformance.run.pipes.ERROR_BYTES", 100_000)
    tail, ended = Tail(), threading.Event()

    def write(count: int) -> None:
        tail._run(io.BufferedReader(io.BytesIO(b"x" * count)), ended.set)

    for _ in range(3):
        tail.begin()
        write(90_000)
    assert not ended.is_set()
    write(10_001)

    assert ended.is_set()
    assert "100,000 bytes to standard error" in tail.flooded
