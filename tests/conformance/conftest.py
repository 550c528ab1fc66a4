"""Find processes that a test leaves behind."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

MARK = "GRADCLIP_TEST_RUN"


@pytest.fixture
def nothing_left_behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check after the test that no process that it started, directly or indirectly, is still running."""
    # All processes that the test starts inherit the mark.
    mark = str(uuid.uuid4())
    monkeypatch.setenv(MARK, mark)
    yield
    left = end_marked_processes(mark)
    assert not left, f"processes are still running: {left}"


def end_marked_processes(mark: str) -> list[psutil.Process]:
    """Kill the marked processes that do not end by themselves, and return them."""
    left = list_marked_processes(mark)
    # A killed process takes a moment to disappear, and longer on a busy machine. Only a failing test waits for the full
    # time.
    for _ in range(1200):
        if not left:
            return []
        time.sleep(0.1)
        left = list_marked_processes(mark)
    for process in left:
        process.kill()
    return left


def list_marked_processes(mark: str) -> list[psutil.Process]:
    """Return the processes that inherited the mark. Dead ones do not count."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@pytest.fixture
def run_pytest(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that runs pytest in a folder. Only options of pytest-xdist start processes."""

    def run(folder: Path, *arguments: str) -> Any:
        monkeypatch.chdir(folder)
        plugins = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:randomly"]
        done = pytester.runpytest_inprocess(*plugins, *arguments)
        return SimpleNamespace(returncode=done.ret, stdout=done.stdout.str(), stderr=done.stderr.str())

    return run
