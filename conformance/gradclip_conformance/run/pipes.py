"""Write to the pipes of a host, and read from them within limits.

Each pipe has its own thread, because a host may stop reading or writing. Output is read in pieces, so that a line
without an end takes no more memory than the limit of a line.
"""

from __future__ import annotations

import contextlib
import io
import os
import queue
import select
import threading
from collections.abc import Callable
from typing import IO

PIECE = 1 << 16
#: A pipe that can be written takes this many bytes at once. (Windows has no such number.)
AT_ONCE: int = getattr(select, "PIPE_BUF", 0)
#: The number of lines that a host may send beyond those that answer calls.
UNASKED_LINES = 16
#: This many last bytes of standard error are kept, and this many characters of a line are shown.
TAIL_BYTES, TAIL_LINE = 16 << 10, 1000
#: The amount of standard error that a host may write in one call, or while it starts. The noisiest framework writes
#: some kilobytes.
ERROR_BYTES = 256 << 20


class PipeFlooded(Exception):
    """A host wrote more than the limit allows. The text names the limit."""


class LineWriter:
    """A writer of lines to a pipe. Its own thread writes what the pipe cannot take at once."""

    def __init__(self) -> None:
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._stream: IO[bytes] | None = None

    def start(self, stream: IO[bytes]) -> None:
        """Begin to write to a stream."""
        self._stream = stream
        threading.Thread(target=self._run, args=(stream,), daemon=True).start()

    def write(self, line: str) -> None:
        """Write a line now or later. Errors are not reported."""
        data = line.encode("utf-8")
        # While this thread is busy, Python lets the other one wait for milliseconds, in which a host can answer.
        if not (self._lines.unfinished_tasks == 0 and self._write_now(data)):
            self._lines.put(data)

    def close(self) -> None:
        """Close the pipe when all lines are written."""
        self._lines.put(None)

    def _write_now(self, data: bytes) -> bool:
        """Write to the pipe if it has room for all data, and return whether it had."""
        if self._stream is None or len(data) > AT_ONCE:
            return False
        try:
            _, writable, _ = select.select((), (self._stream,), (), 0)
            return bool(writable) and os.write(self._stream.fileno(), data) == len(data)
        except (OSError, ValueError):
            return False

    def _run(self, stream: IO[bytes]) -> None:
        # Close the stream here. If a child of the host still holds it, closing it in another thread would block.
        with contextlib.suppress(OSError), stream:
            for data in iter(self._lines.get, None):
                # While another thread computes, each turn of this one waits for milliseconds: take all lines at once.
                ready = [data]
                while (more := self._take_now()) is not None:
                    ready.append(more)
                stream.write(b"".join(ready))
                stream.flush()
                for _ in ready:
                    self._lines.task_done()

    def _take_now(self) -> bytes | None:
        """Return the next line if there is one. The end stays in the queue."""
        try:
            data = self._lines.get_nowait()
        except queue.Empty:
            return None
        if data is None:
            self._lines.put(None)
        return data


class LineReader:
    """A reader of lines from a pipe, with its own thread and a limit for each line."""

    def __init__(self) -> None:
        self._lines: queue.Queue[str | PipeFlooded | None] = queue.Queue()
        self._limit = 0
        self._expected = 0

    def start(self, stream: IO[bytes], limit: int) -> None:
        """Begin to read a stream. `limit` is the number of bytes that its first line may have."""
        self._limit = limit
        threading.Thread(target=self._run, args=(stream,), daemon=True).start()

    def allow(self, limit: int, expected: int) -> None:
        """Let each line have this number of bytes from now on, and expect a number of lines that are not yet read."""
        self._limit = limit
        self._expected = expected

    def read(self, timeout: float) -> str | None:
        """Return the next line, or None if the pipe is closed.

        Raises
        ------
        TimeoutError
            If no line is complete within the time.
        PipeFlooded
            If the line is longer, or if there are too many unrequested lines.
        """
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
        """Queue each line. Return None when the stream ends, or an error when a limit is exceeded."""
        begun = bytearray()
        while piece := _read_piece(stream):
            *ended, rest = piece.split(b"\n")
            for part in ended:
                line = bytes(begun) + part + b"\n"
                begun.clear()
                if len(line) > self._limit:
                    return self._explain_too_long()
                if self._lines.qsize() >= self._expected + UNASKED_LINES:
                    return PipeFlooded(f"it wrote more than {UNASKED_LINES} unrequested lines")
                self._lines.put(line.decode("utf-8", "replace"))
                # The thread waits for the next line, and must not keep this one meanwhile.
                del line, part
            del ended
            begun += rest
            if len(begun) > self._limit:
                return self._explain_too_long()
        if begun:
            self._lines.put(begun.decode("utf-8", "replace"))
        return None

    def _explain_too_long(self) -> PipeFlooded:
        return PipeFlooded(f"it wrote a line of more than {self._limit:,} bytes, the limit of an answer to this call")


class Tail:
    """A reader that keeps only the end of the output. It ends a host that writes without an end."""

    def __init__(self) -> None:
        self._kept = b""
        self._ended = threading.Event()
        self._left = ERROR_BYTES
        #: Why the host was ended. It is empty if the suite did not end it.
        self.flooded = ""

    def start(self, stream: IO[bytes], end: Callable[[], None]) -> None:
        """Begin to read a stream. `end` is called if more than the limit is written."""
        threading.Thread(target=self._run, args=(stream, end), daemon=True).start()

    def begin(self) -> None:
        """Begin a new call, and start to count its output from zero."""
        self._left = ERROR_BYTES

    def list_last_lines(self, count: int) -> list[str]:
        """Return the last lines that are not empty. Of a long line, return only the end."""
        # The last output of a process may arrive after its end.
        self._ended.wait(0.5)
        lines = [line.strip() for line in self._kept.decode("utf-8", "replace").splitlines()[-count:]]
        return [line[-TAIL_LINE:] for line in lines if line]

    def _run(self, stream: IO[bytes], end: Callable[[], None]) -> None:
        with stream:
            while piece := _read_piece(stream):
                self._kept = (self._kept + piece)[-TAIL_BYTES:]
                self._left -= len(piece)
                if self._left < 0 and not self.flooded:
                    self.flooded = f"it wrote more than {ERROR_BYTES:,} bytes to standard error, the limit of one call"
                    end()
        self._ended.set()


def _read_piece(stream: IO[bytes]) -> bytes:
    """Return bytes as soon as there are any. Return no bytes at the end."""
    assert isinstance(stream, io.BufferedReader)
    try:
        return stream.read1(PIECE)
    except (OSError, ValueError):
        return b""
