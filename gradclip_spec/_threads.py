"""Work on large arrays, spread over threads: one core alone does not keep the memory busy."""

import contextvars
import itertools
import os
import threading
from collections.abc import Callable, Sequence

import numpy as np

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
    """Call `work(start, stop)` for ranges of parts that have nearly as many elements, each in a thread of its own.

    What is computed must not depend on how the parts are divided: the number of threads is no part of a result.
    """
    total = sum(sizes)
    if threads < 2 or len(sizes) < 2 or total < _LARGE:
        work(0, len(sizes))
        return
    cuts = np.searchsorted(np.cumsum(sizes), np.arange(1, threads) * (total / threads), "right").tolist()
    first, *others = itertools.pairwise([0, *cuts, len(sizes)])
    own, started, errors = [first], [], []

    def guarded(context: contextvars.Context, start: int, stop: int) -> None:
        try:
            context.run(work, start, stop)
        except BaseException as error:
            errors.append(error)

    for ends in others:
        # In a copy of the context, where NumPy keeps what it does about overflow.
        thread = threading.Thread(target=guarded, args=(contextvars.copy_context(), *ends))
        try:
            thread.start()
        except RuntimeError:
            # There is no memory for another, or the interpreter is shutting down.
            own.append(ends)
        else:
            started.append(thread)
    try:
        for ends in own:
            work(*ends)
    finally:
        for thread in started:
            thread.join()
    if errors:
        raise errors[0]
