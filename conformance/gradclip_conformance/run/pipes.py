"""The pipes to a host: what is written, what is read, and where reading stops.

A thread works on each pipe, because a host may neither read nor write. What a host writes is read in pieces, so that a
line without an end costs no more memory than the limit of a line.
"""

from __future__ import annotations

import contextlib
import io
import queue
import threading
from typing import IO

__all__ = ["LineReader", "LineWriter", "PipeFlooded", "Tail"]

PIECE = 1 << 16
#: Lines that nobody has asked for: a host that sends more talks without being asked.
UNASKED_LINES = 16
#: How much of standard error is kept, and how much of one of its lines is shown.
TAIL_BYTES, TAIL_LINE = 16 << 10, 1000


class PipeFlooded(Exception):
    """A host wrote more than the limit allows; the text names the limit."""


class LineWriter:
    """Writes lines to a pipe in a thread of its own."""

    def __init__(self) -> None:
        self._lines: queue.Queue[str | None] = queue.Queue()

    def start(self, stream: IO[bytes]) -> None:
        """Begin to write to a stream."""
        threading.Thread(target=self._run, args=(stream,), daemon=True).start()

    def write(self, line: str) -> None:
        """Have a line written; whether it can be is not told."""
        self._lines.put(line)

    def close(self) -> None:
        """Close the pipe when all lines are written."""
        self._lines.put(None)

    def _run(self, stream: IO[bytes]) -> None:
        # The stream is closed here: closed from another thread, one that a process which the host has left behind
        # still holds would be waited for.
        with contextlib.suppress(OSError), stream:
            for line in iter(self._lines.get, None):
                stream.write(line.encode("utf-8"))
                stream.flush()


class LineReader:
    """Reads lines from a pipe in a thread of its own, each no longer than its limit."""

    def __init__(self) -> None:
        self._lines: queue.Queue[str | PipeFlooded | None] = queue.Queue()
        self._limit = 0

    def start(self, stream: IO[bytes], limit: int) -> None:
        """Begin to read a stream whose first line may have so many bytes."""
        self._limit = limit
        threading.Thread(target=self._run, args=(stream,), daemon=True).start()

    def read(self, timeout: float, limit: int) -> str | None:
        """Return the next line, which may have so many bytes, or None where the pipe is closed.

        Raises
        ------
        TimeoutError
            When no line is complete within the time.
        PipeFlooded
            When the line is longer, or there are many lines that nobody has asked for.
        """
        self._limit = limit
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None
        if isinstance(line, PipeFlooded):
            raise line
        return line

    def _run(self, stream: IO[bytes]) -> None:
        with stream:
            self._lines.put(self._read_all(stream))

    def _read_all(self, stream: IO[bytes]) -> PipeFlooded | None:
        """Hand on each line until the stream ends (None), or a limit is exceeded."""
        begun = bytearray()
        while piece := _read_piece(stream):
            *ended, rest = piece.split(b"\n")
            for part in ended:
                line = bytes(begun) + part + b"\n"
                begun.clear()
                if len(line) > self._limit:
                    return self._too_long()
                if self._lines.qsize() >= UNASKED_LINES:
                    return PipeFlooded(f"it wrote more than {UNASKED_LINES} lines that nobody has asked for")
                self._lines.put(line.decode("utf-8", "replace"))
            begun += rest
            if len(begun) > self._limit:
                return self._too_long()
        if begun:
            self._lines.put(begun.decode("utf-8", "replace"))
        return None

    def _too_long(self) -> PipeFlooded:
        return PipeFlooded(f"it wrote a line of more than {self._limit:,} bytes, the limit of an answer to this call")


class Tail:
    """Keeps the last of what is written to a pipe; however much that is, it takes no more memory."""

    def __init__(self) -> None:
        self._kept = b""
        self._ended = threading.Event()

    def start(self, stream: IO[bytes]) -> None:
        """Begin to read a stream."""
        threading.Thread(target=self._run, args=(stream,), daemon=True).start()

    def last_lines(self, count: int) -> list[str]:
        """Return the last lines that are not empty, without what is too long of each."""
        # What a process wrote before it ended may still be under way.
        self._ended.wait(0.5)
        lines = [line.strip() for line in self._kept.decode("utf-8", "replace").splitlines()[-count:]]
        return [line[-TAIL_LINE:] for line in lines if line]

    def _run(self, stream: IO[bytes]) -> None:
        with stream:
            while piece := _read_piece(stream):
                self._kept = (self._kept + piece)[-TAIL_BYTES:]
        self._ended.set()


def _read_piece(stream: IO[bytes]) -> bytes:
    """Return some bytes as soon as there are any, or none at the end."""
    assert isinstance(stream, io.BufferedReader)
    try:
        return stream.read1(PIECE)
    except (OSError, ValueError):
        return b""
