"""Limit the time and memory of an example, and the files that it writes.

The limits are far above the needs of any example. So an example that exceeds a limit hangs, or needs unbounded memory.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .target import require
from .texts import CANARY

__all__ = ["Hang", "enter_folder", "limit_example"]

SECONDS = 120
MEBIBYTES = 1024

#: Audit events of Python that change the file system. The numbers say which arguments are paths.
WRITES = {
    "open": (0,),
    "os.mkdir": (0,),
    "os.rename": (0, 1),
    "os.remove": (0,),
    "os.rmdir": (0,),
    "os.link": (1,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "shutil.rmtree": (0,),
    "shutil.copyfile": (1,),
    "shutil.move": (1,),
}
#: Folders where Python and its libraries keep compiled files and caches.
OWN_FOLDERS = ("__pycache__", ".hypothesis", ".mypy_cache")


class Hang(BaseException):
    """An example exceeds the time limit. This is a BaseException, so that the code under test does not catch it."""


class _Watched:
    """The folder that an example may write to, and the files that it has written elsewhere."""

    folder: Path | None = None
    elsewhere: tuple[str, ...] = ()


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _Watched.folder is None or event not in WRITES or (event == "open" and not _opens_to_write(arguments)):
        return
    for place in WRITES[event]:
        path = arguments[place]
        if isinstance(path, str | bytes | os.PathLike) and _is_elsewhere(os.fsdecode(path)):
            _Watched.elsewhere += (f"{event} {os.fsdecode(path)!r}",)


def _opens_to_write(arguments: tuple[Any, ...]) -> bool:
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))


def _is_elsewhere(path: str) -> bool:
    assert _Watched.folder is not None
    whole = os.path.realpath(path)
    if whole == os.devnull or any(name in Path(whole).parts for name in OWN_FOLDERS):
        return False
    return not Path(whole).is_relative_to(_Watched.folder)


sys.addaudithook(_audit)


@contextlib.contextmanager
def enter_folder() -> Iterator[Path]:
    """Make a folder for one example. It is the working directory, and the only folder that the example may write to.

    Raises
    ------
    Find
        If the example wrote elsewhere, or executed a payload.
    """
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="gradclip-fuzz-") as name:
        place = Path(name).resolve()
        os.chdir(place)
        _Watched.folder, _Watched.elsewhere = place, ()
        try:
            yield place
            executed = (place / CANARY).exists()
        finally:
            _Watched.folder = None
            os.chdir(before)
    require(not executed, "a payload was executed and created its file")
    require(not _Watched.elsewhere, f"written outside the example's folder: {', '.join(_Watched.elsewhere)}")


@contextlib.contextmanager
def limit_example() -> Iterator[None]:
    """Limit the time and the memory of one example.

    Raises
    ------
    Hang
        If the example exceeds the time limit.
    Find
        If the example needs far more memory than all examples before it.
    """
    before = _measure_peak()
    previous = signal.signal(signal.SIGALRM, _give_up)
    # A test runner may use the same timer for a limit of its own.
    remaining, interval = signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, remaining, interval)
        signal.signal(signal.SIGALRM, previous)
    more = _measure_peak() - before
    require(more < MEBIBYTES, f"needed {more:.0f} MiB more than all examples before it")


def _give_up(number: int, frame: Any) -> None:
    del number, frame
    message = f"still running after {SECONDS} s"
    raise Hang(message)


def _measure_peak() -> float:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
