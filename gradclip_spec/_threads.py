"""Work on large arrays, spread over threads: one core alone does not keep the memory busy."""

import collections
import contextlib
import contextvars
import itertools
import os
import threading
from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["available", "spread"]

#: Elements below which to start threads takes longer than they save.
_LARGE = 1 << 21
#: Held while threads share some work.
_spreading = threading.Lock()


def available() -> int:
    """How many threads work on NumPy arrays: one a core, or as many as `OMP_NUM_THREADS` says, as in BLAS."""
    if threading.current_thread() is not threading.main_thread():
        # Whoever started this thread has spread the work already.
        return 1
    # OpenMP allows a list, a number for each level of nesting.
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(work: Callable[[int, int], None], sizes: Sequence[int], threads: int) -> None:
    """Call `work(start, stop)` for ranges of parts that have nearly as many elements, in so many threads at the most.

    What is computed must not depend on how the parts are divided: the number of threads is no part of a result.
    """
    total, threads = sum(sizes), min(threads, len(sizes))
    # Not where this thread is spreading something already, and a signal's handler clips in between.
    if threads < 2 or total < _LARGE or not _spreading.acquire(blocking=False):
        work(0, len(sizes))
        return
    try:
        cuts = np.searchsorted(np.cumsum(sizes), np.arange(1, threads) * (total / threads), "right").tolist()
        _share(work, collections.deque(itertools.pairwise([0, *cuts, len(sizes)])))
    finally:
        _spreading.release()


def _share(work: Callable[[int, int], None], ranges: collections.deque[tuple[int, int]]) -> None:
    """Work on ranges, each in the thread that takes it."""
    helpers: list[threading.Thread] = []
    # A lock of each that has begun, which it holds until it has done its share.
    begun: list[threading.Lock] = []
    errors: list[BaseException] = []

    def work_on(next_range: Callable[[], tuple[int, int]]) -> None:
        while True:
            try:
                start, stop = next_range()
            except IndexError:
                return
            work(start, stop)

    def help_out() -> None:
        working = threading.Lock()
        with working:
            begun.append(working)
            try:
                work_on(ranges.pop)
            except BaseException as error:
                errors.append(error)

    try:
        # There may be no memory for another thread, or the interpreter is shutting down: what no other takes is left
        # for this one.
        with contextlib.suppress(RuntimeError):
            for _ in range(len(ranges) - 1):
                # In a copy of the context, where NumPy keeps what it does about overflow.
                run = contextvars.copy_context().run
                helpers.append(threading.Thread(target=run, args=(help_out,), daemon=True))
                helpers[-1].start()
        work_on(ranges.popleft)
    finally:
        # After an error nobody shall go on, and a thread that has not begun by now finds nothing to do.
        ranges.clear()
        _wait(begun)
        for helper in helpers:
            if helper.is_alive():
                helper.join()
    if errors:
        try:
            raise errors[0]
        finally:
            # Its traceback has this frame, which would keep it, and the arrays.
            errors.clear()


def _wait(locks: Sequence[threading.Lock]) -> None:
    """Wait for locks, also if that is interrupted: their threads write into somebody's arrays."""
    interrupts: list[BaseException] = []
    for lock in locks:
        waiting = True
        while waiting:
            try:
                # A thread's `join` would take it for ended once it is interrupted.
                with lock:
                    waiting = False
            except BaseException as interrupt:
                interrupts.append(interrupt)
    if interrupts:
        raise interrupts.pop()
