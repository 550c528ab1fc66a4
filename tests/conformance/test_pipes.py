"""Check what the suite reads from a host, and where it stops reading."""

from __future__ import annotations

import os
import threading

import pytest

from gradclip_conformance.run.pipes import TAIL_BYTES, UNASKED_LINES, LineReader, PipeFlooded, Tail


def reader_of(text: bytes, limit: int = 100) -> LineReader:
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
    reader = reader_of("one\n\nzwölf\nhalf".encode())

    assert [reader.read(1, 100) for _ in range(5)] == ["one\n", "\n", "zwölf\n", "half", None]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_line_longer_than_its_limit_is_refused(end: bytes) -> None:
    with pytest.raises(PipeFlooded, match="a line of more than 100 bytes"):
        reader_of(b"x" * 101 + end).read(1, 100)


def test_unrequested_lines_are_refused() -> None:
    reader = reader_of(b"x\n" * 1000)

    assert [reader.read(1, 100) for _ in range(UNASKED_LINES)] == ["x\n"] * UNASKED_LINES
    with pytest.raises(PipeFlooded, match="nobody has asked for"):
        reader.read(1, 100)


def test_tail_keeps_only_the_last_lines() -> None:
    readable, writable = os.pipe()
    tail = Tail()
    tail.start(os.fdopen(readable, "rb"))
    with os.fdopen(writable, "wb") as stream:
        stream.write(b"x" * 10 * TAIL_BYTES + b"\n\nlast words\n")
    tail._ended.wait()

    assert tail.last_lines(1) == ["last words"]
    assert len(tail._kept) <= TAIL_BYTES
