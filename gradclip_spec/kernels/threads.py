"""Distribute work among Python threads, for loops that release the interpreter lock."""

import contextlib
import functools
import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

#: A function that calls another one on as many threads as a number says.
Team = Callable[[Callable[[], None], int], None]


def count_available() -> int:
    """Return the number of threads to use: one per core, or fewer if `OMP_NUM_THREADS` or a container's quota says so.

    In a thread other than the main one, return 1: the program has already distributed its work among threads.
    """
    if threading.current_thread() is not threading.main_thread():
        return 1
    # OpenMP allows a list that holds a number for each level of nesting.
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _read_quota("/sys/fs/cgroup/cpu.max")))


@functools.cache
def _read_quota(file: str | os.PathLike[str]) -> int:
    """Return the number of cores of a control group (version 2), rounded up, or a large number if there is no quota."""
    try:
        # Importing pathlib takes several milliseconds.
        with open(file, encoding="ascii") as text:  # noqa: PTH123
            quota, period = text.read().split()
        return -(-int(quota) // int(period))
    except (OSError, ValueError):
        return 1 << 20


def run_threads(function: Callable[[], None], count: int) -> None:
    """Call a function on this thread and on new ones, and wait for all of them."""
    helpers = [threading.Thread(target=function, daemon=True) for _ in range(count - 1)]
    try:
        for helper in helpers:
            # There may be no memory for another thread, or the interpreter may be shutting down.
            with contextlib.suppress(RuntimeError):
                helper.start()
        function()
    finally:
        for helper in filter(threading.Thread.is_alive, helpers):
            helper.join()


def spread(work: Callable[[int, int], None], sizes: Any, threads: int, run_team: Team = run_threads) -> None:
    """Call `work(first, last)` for one range of parts per thread. The ranges have nearly equal numbers of elements.

    The first error of any thread is raised once all of them have ended.
    """
    total, threads = int(np.sum(sizes)), max(1, min(threads, len(sizes)))
    cuts = np.searchsorted(np.cumsum(sizes), np.arange(1, threads) * (total / threads), "right").tolist()
    # If some threads cannot be started, the others take their ranges. Each thread ends with None.
    ranges = [*[None] * threads, *itertools.pairwise([0, *cuts, len(sizes)])]
    errors: list[BaseException] = []

    def work_on() -> None:
        try:
            for part in iter(ranges.pop, None):
                work(*part)
        except BaseException as error:  # noqa: BLE001 - the thread that waits raises it again
            errors.append(error)

    run_team(work_on, threads)
    if errors:
        # Remove the error from the list: its traceback holds this frame, and the cycle would keep the arrays alive.
        raise errors.pop(0)
