"""Write a record beside its place, and put it there when it is whole.

While a run lasts, a journal `FILE.part` holds its header and each finished cell, in the order in which they finish. A
run that is cut off leaves the journal and the old record. The journal is read by `read_partial`, and
`gradclip check --resume` goes on from it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self, TextIO

import filelock

from gradclip_reports.records import Cell, Header, Run, write_line, write_run


def name_journal(path: Path) -> Path:
    """Return the path of the journal of a record."""
    return path.with_name(f"{path.name}.part")


class RecordFile:
    """The file of a record, as a context manager around the run.

    Parameters
    ----------
    path
        The file. A pipe or a device gets the record at the end, and has no journal.
    appends
        Whether the file holds runs that stay, before this one.
    earlier
        The part of the run that is there already.
    """

    def __init__(self, path: Path, *, appends: bool = False, earlier: Run | None = None) -> None:
        self.path = path.resolve()
        self._appends = appends
        self._earlier = earlier
        self._journal: TextIO | None = None
        self._is_regular = self.path.is_file() or not self.path.exists()
        self._lock = filelock.FileLock(f"{self.path}.lock", timeout=0)

    def __enter__(self) -> Self:
        """Keep other runs from writing this record.

        Raises
        ------
        OSError
            If another run writes it, or if the folder cannot be written.
        """
        # The lock would make a missing folder.
        if not self.path.parent.is_dir():
            message = f"there is no folder {self.path.parent}"
            raise OSError(message)
        if self._is_regular:
            try:
                self._lock.acquire()
            except filelock.Timeout as error:
                message = f"another run is writing {self.path.name}"
                raise OSError(message) from error
        return self

    def __exit__(self, *_: object) -> None:
        """Let other runs write this record."""
        try:
            if self._journal is not None:
                self._journal.close()
        finally:
            if self._is_regular:
                Path(self._lock.lock_file).unlink(missing_ok=True)
                self._lock.release()

    def note(self, line: Header | Cell) -> None:
        """Write a line into the journal at once. The first line is the header.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        if not self._is_regular:
            return
        if self._journal is None:
            journal = name_journal(self.path)
            if self._earlier is not None:
                # The journal of a run that was cut off may end within a line. Its header is this line.
                with replace_file(journal) as stream:
                    stream.writelines(write_line(each) for each in (self._earlier.header, *self._earlier.cells))
                self._journal = journal.open("a", encoding="utf-8")
                return
            self._journal = journal.open("w", encoding="utf-8")
        self._journal.write(write_line(line))
        self._journal.flush()

    def finish(self, run: Run) -> None:
        """Put the whole record into its place. Without this, the journal and the old record stay."""
        if not self._is_regular:
            with self.path.open("a" if self._appends else "w", encoding="utf-8") as stream:
                write_run(stream, run)
            return
        with replace_file(self.path) as stream:
            if self._appends and self.path.is_file():
                stream.write(self.path.read_text(encoding="utf-8"))
            write_run(stream, run)
        name_journal(self.path).unlink(missing_ok=True)


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[TextIO]:
    """Yield a stream that writes a file beside its place, and put the file there when it is whole."""
    beside = path.with_name(f"{path.name}.new")
    try:
        with beside.open("w", encoding="utf-8") as stream:
            yield stream
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
