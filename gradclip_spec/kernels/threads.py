"""Distribute work among Python threads, for loops that release the interpreter lock."""

import functools
import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["count_available", "spread"]


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


def spread(work: Callable[[int, int], None], sizes: Any, threads: int) -> None:
    """Call `work(first, last)` for one range of parts per thread. The ranges have nearly equal numbers of elements.

    The first error of any thread is raised once all of them have ended.
    """
    total, threads = int(np.sum(sizes)), min(threads, len(sizes))
    if threads < 2:
        work(0, len(sizes))
        return
    cuts = np.searchsorted(np.cumsum(sizes), np.arange(1, threads) * (total / threads), "right").tolist()
    own, *others = itertools.pairwise([0, *cuts, len(sizes)])
    errors: list[BaseException] = []

    def work_on(first: int, last: int) -> None:
        try:
            work(first, last)
        except BaseException as error:  # noqa: BLE001 - the thread that waits raises it again
            errors.append(error)

    helpers: list[threading.Thread] = []
    try:
        for part in others:
            helper = threading.Thread(target=work_on, args=part, daemon=True)
            try:
                helper.start()
                helpers.append(helper)
            except RuntimeError:
                # There is no memory for another thread, or the interpreter is shutting down.
                work_on(*part)
        work_on(*own)
    finally:
        for helper in helpers:
            helper.join()
    if errors:
        # Remove the error from the list: its traceback holds this frame, and the cycle would keep the arrays alive.
        raise errors.pop(0)
