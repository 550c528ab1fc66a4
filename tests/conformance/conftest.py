"""Look for processes that a test leaves behind."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator

import psutil
import pytest

MARK = "GRADCLIP_TEST_RUN"


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """What every process that the test starts inherits in its environment."""
    mark = str(uuid.uuid4())
    monkeypatch.setenv(MARK, mark)
    return mark


@pytest.fixture
def nothing_left_behind(mark: str) -> Iterator[None]:
    """No process that the test has started, its children's children among them, lives on after it."""
    yield
    left = end_marked_processes(mark)
    assert not left, f"processes that are left behind: {left}"


def end_marked_processes(mark: str) -> list[psutil.Process]:
    """The marked processes that do not end by themselves; they are killed."""
    left = marked_processes(mark)
    # What was killed may take a moment until it is gone.
    for _ in range(50):
        if not left:
            return []
        time.sleep(0.1)
        left = marked_processes(mark)
    for process in left:
        process.kill()
    return left


def marked_processes(mark: str) -> list[psutil.Process]:
    """The processes that have inherited the mark; those that are dead already do not count."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@pytest.fixture
def left_behind(mark: str) -> Callable[[], list[psutil.Process]]:
    """The processes that live on, for a test that looks for itself."""
    return lambda: end_marked_processes(mark)
