"""Work on large arrays, spread over threads: one core alone does not keep the memory busy."""

import collections
import contextvars
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["available", "spread"]

#: Elements below which to start threads takes longer than they save.
_LARGE = 1 << 21


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
    """Call `work(start, stop)` for ranges of parts that have nearly as many elements, in as many threads.

    What is computed must not depend on how the parts are divided: the number of threads is no part of a result.
    """
    total = sum(sizes)
    if threads < 2 or len(sizes) < 2 or total < _LARGE:
        work(0, len(sizes))
        return
    cuts = np.searchsorted(np.cumsum(sizes), np.arange(1, threads) * (total / threads), "right").tolist()
    ranges = collections.deque(itertools.pairwise([0, *cuts, len(sizes)]))

    def work_on(next_range: Callable[[], tuple[int, int]]) -> None:
        while True:
            try:
                start, stop = next_range()
            except IndexError:
                return
            work(start, stop)

    helpers = []
    try:
        for _ in range(threads - 1):
            # In a copy of the context, where NumPy keeps what it does about overflow.
            helpers.append(_pool().submit(contextvars.copy_context().run, work_on, ranges.pop))
    except RuntimeError:
        # No thread can be started: there is no memory for another, or the interpreter is shutting down. What nobody
        # takes is left for this one; the pool goes, because it would keep the work, and with it the arrays.
        _pool.cache_clear()
    try:
        work_on(ranges.popleft)
    finally:
        # Waits for each.
        errors = [error for helper in helpers if (error := helper.exception()) is not None]
    if errors:
        raise errors[0]


@lru_cache
def _pool() -> "ThreadPoolExecutor":
    """Threads that wait for work: to start one takes a third of a millisecond, and the work on 100 MB only four."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(thread_name_prefix="gradclip_spec")


if hasattr(os, "register_at_fork"):
    # A forked process has none of the threads.
    os.register_at_fork(after_in_child=_pool.cache_clear)
