"""Large arrays on several threads: the same results as on one, and nothing that a thread of one's own may not do."""

from __future__ import annotations

import collections
import contextlib
import gc
import math
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gradclip_spec import _numpy, _threads, clip_by_global_norm, global_norm

#: Elements that are worth a thread, in arrays that cannot be divided evenly.
SHAPES = [(1_500_001,), (300, 4001), (7,), (), (2_000_003,), (64, 64)]


def gradients(dtype: str) -> list[np.ndarray[Any, Any]]:
    """Arrays of these shapes, with a part of one that does not lie in one piece."""
    random = np.random.default_rng(5)
    arrays = [random.standard_normal(shape).astype(dtype) for shape in SHAPES]
    return [np.asarray(array) for array in arrays] + [random.standard_normal((700, 30, 40)).astype(dtype)[:, ::2, 1:]]


@pytest.mark.exam(sample=1)
@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_number_of_threads_is_no_part_of_a_result(
    dtype: str, inplace: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for threads in (1, 2, 3, 8):
        monkeypatch.setattr(_threads, "available", lambda threads=threads: threads)
        given = gradients(dtype)
        results, _ = clip_by_global_norm(given, 1.0, inplace=inplace)
        seen.append((float(global_norm(gradients(dtype))), b"".join(result.tobytes() for result in results)))
    assert len(set(seen)) == 1


def test_no_two_threads_write_to_one_element(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    writes = []
    monkeypatch.setattr(_threads, "available", lambda: 4)
    monkeypatch.setattr(_threads, "spread", lambda work, sizes, threads: asked.append(threads) or work(0, len(sizes)))
    memory = np.full((1 << 22) + 2, 2.0, np.float32)
    halves = [memory[: 1 << 21], memory[1 << 21 :]]
    nearly = [memory[: (1 << 21) + 1], memory[1 << 21 :]]
    parts = [memory[1:], memory[:10], memory[-10:]]
    for arrays in ([memory], halves, nearly, parts, [memory, memory[:10]], [memory[::2], memory[1::2]]):
        clip_by_global_norm(arrays, 1.0, inplace=True)
        writes.append(asked[-1])
    assert writes == [4, 4, 1, 1, 1, 1]


def test_work_is_really_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "_LARGE", 10)
    names: dict[int, str] = {}
    meeting = threading.Barrier(3, timeout=60)

    def work(start: int, stop: int) -> None:
        meeting.wait()
        names.update(dict.fromkeys(range(start, stop), threading.current_thread().name))

    _threads.spread(work, [5] * 9, 3)
    assert sorted(names) == list(range(9)), "a part was left out"
    assert len(set(names.values())) == 3


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("sizes", [[], [100], [0, 0, 0], [1000, 0, 0, 0], [0, 1000], [1] * 7, [1, 1000, 1]])
def test_each_part_is_worked_on_once(sizes: list[int], threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "_LARGE", 0)
    done: list[int] = []
    _threads.spread(lambda start, stop: done.extend(range(start, stop)), sizes, threads)
    assert sorted(done) == list(range(len(sizes)))


def test_what_a_thread_raises_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "_LARGE", 0)

    def work(start: int, stop: int) -> None:
        if stop == 4:
            message = "out of memory"
            raise MemoryError(message)

    with pytest.raises(MemoryError, match="out of memory"):
        _threads.spread(work, [1, 1, 1, 1], 2)


def test_overflow_warns_of_nothing_in_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "available", lambda: 2)
    grads = [np.full(1_500_000, 1e30, np.float32) for _ in range(4)]
    assert float(global_norm(grads)) == pytest.approx(1e30 * 6_000_000**0.5, rel=2.0**-23)
    grads[3][-1] = np.inf
    # NaN where infinity meets zero, in the last thread.
    clipped, _ = clip_by_global_norm(grads, 1.0)
    assert np.isnan(clipped[3][-1])


def test_other_threads_start_none() -> None:
    counts: list[int] = []
    thread = threading.Thread(target=lambda: counts.append(_threads.available()))
    thread.start()
    thread.join()
    assert counts == [1]


@pytest.mark.parametrize(("value", "threads"), [("1", 1), ("3", 3), ("4,2", 4), (" 2 , 1", 2)])
def test_as_many_as_the_environment_says(value: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert _threads.available() == threads


def test_one_a_core_where_the_environment_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    available = _threads.available()
    assert available >= 1
    if sys.platform == "linux":
        counted = subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout
        assert available == int(counted)


@pytest.mark.parametrize("value", ["", "0", "²", "many", ",2"])
def test_what_is_no_number_of_threads_says_nothing(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    default = _threads.available()
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert _threads.available() == default


AT_EXIT = """
import atexit
import numpy as np
from gradclip_spec import _threads, global_norm

_threads.available = lambda: 2
grads = [np.random.default_rng(5).standard_normal(2_000_003).astype(np.float32) for _ in range(2)]
expected = float(global_norm(grads))
atexit.register(lambda: print("same" if float(global_norm(grads)) == expected else "another"))
"""


def test_while_the_interpreter_shuts_down() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", AT_EXIT], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == ("same\n", "")


def test_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "available", lambda: 4)
    arrays = [np.full(1 << 20, 2.0, np.float32) for _ in range(8)]
    for allowed in range(4):
        started: list[threading.Thread] = []
        start = threading.Thread.start

        def some(thread: threading.Thread, started: Any = started, allowed: int = allowed, start: Any = start) -> None:
            if len(started) == allowed:
                raise RuntimeError("can't start new thread")
            started.append(thread)
            start(thread)

        given = [array.copy() for array in arrays]
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", some)
            clipped, norm = clip_by_global_norm(given, 1.0, inplace=True)
        assert len(started) == allowed
        assert float(norm) == pytest.approx(2 * math.sqrt(8 << 20))
        # Each part was multiplied once.
        assert {float(x) for array in clipped for x in np.unique(array)} == {float(np.float32(2 / float(norm)))}


def test_no_thread_and_no_array_is_left_when_a_call_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "available", lambda: 4)
    before = threading.enumerate()
    array = np.ones(1 << 22, np.float32)
    kept = weakref.ref(array)
    with without_collector():
        assert float(global_norm(array)) == 2048
        assert threading.enumerate() == before
        del array
        assert kept() is None
    # To fork beside a thread that is about to end would be warned of.
    for _ in range(300):
        _threads.spread(lambda start, stop: None, [1 << 21] * 4, 4)
        assert threading.enumerate() == before


@pytest.mark.parametrize("failing", ["first", "last"])
def test_no_array_is_left_after_an_error_either(failing: str) -> None:
    array = np.ones(10, np.float32)
    kept = weakref.ref(array)

    def work(start: int, stop: int, array: Any = array) -> None:
        if start == (0 if failing == "first" else 1):
            raise MemoryError

    with without_collector():
        with pytest.raises(MemoryError):
            _threads.spread(work, [1 << 21] * 2, 2)
        del array, work
        assert kept() is None


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Only what nobody refers to goes, and no cycle."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_an_error_ends_the_work_of_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()
    taken: list[int] = []
    start_thread = threading.Thread.start

    def one_alone(thread: threading.Thread) -> None:
        if threading.active_count() > before:
            raise RuntimeError("can't start new thread")
        start_thread(thread)

    def work(start: int, stop: int) -> None:
        taken.append(start)
        if start == 0:
            assert begun.wait(60)
            raise ArithmeticError
        begun.set()
        time.sleep(0.3)
        ended.set()

    before = threading.active_count()
    monkeypatch.setattr(threading.Thread, "start", one_alone)
    with pytest.raises(ArithmeticError):
        _threads._share(work, collections.deque([(0, 1), (1, 2), (2, 3), (3, 4)]))
    assert ended.is_set(), "nobody waited for the other thread"
    assert sorted(taken) == [0, 3]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signal.setitimer is missing on this system")
def test_an_interrupt_waits_for_the_other_threads() -> None:
    ended = threading.Event()

    def work(start: int, stop: int) -> None:
        if start:
            # This thread is waited for when the interrupt comes.
            time.sleep(0.5)
            ended.set()

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            _threads.spread(work, [1 << 21] * 2, 2)
        assert ended.is_set()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_what_clips_in_between_starts_no_threads() -> None:
    # As the handler of a signal does, in the middle of anything.
    inner: list[tuple[str, int, int]] = []
    outer = threading.current_thread().name
    both = threading.Barrier(2, timeout=60)

    def work(start: int, stop: int) -> None:
        both.wait()
        if threading.current_thread().name == outer:
            _threads.spread(
                lambda start, stop: inner.append((threading.current_thread().name, start, stop)), [1 << 21] * 3, 3
            )

    # Twice, because afterwards threads are started again: one alone would wait in vain.
    for _ in range(2):
        _threads.spread(work, [1 << 21] * 2, 2)
    assert set(inner) == {(outer, 0, 3)}


def test_an_error_in_a_thread_is_raised() -> None:
    ranges: list[tuple[int, int]] = []

    def work(start: int, stop: int) -> None:
        ranges.append((start, stop))
        if start:
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        _threads.spread(work, [1 << 21] * 2, 2)
    assert sorted(ranges) == [(0, 1), (1, 2)]


FORKING = """
import multiprocessing
import numpy as np
from gradclip_spec import _threads, global_norm

def norm_of(sender, grads):
    sender.send(float(global_norm(grads)))

_threads.available = lambda: 2
grads = [np.random.default_rng(5).standard_normal(2_000_003).astype(np.float32) for _ in range(2)]
expected = float(global_norm(grads))
receiver, sender = multiprocessing.Pipe(duplex=False)
process = multiprocessing.get_context("fork").Process(target=norm_of, args=(sender, grads))
process.start()
assert receiver.poll(60), "the child hangs"
assert receiver.recv() == expected
process.join(60)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is missing on this system")
def test_a_forked_process_clips_too() -> None:
    # In a process of its own, because libraries with threads, once imported, warn of every fork.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORKING], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_torch_tensors_that_do_not_lie_in_one_piece(dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    whole = torch.from_numpy(np.random.default_rng(3).standard_normal((20, 500, 2000)).astype(np.float32))
    # Along no one axis can it be cut into pieces as small as are converted at a time.
    views: list[Callable[[Any], Any]] = [lambda x: x[:, :, ::2], lambda x: x.transpose(0, 2)[::3], lambda x: x[:, 1:]]
    for view in views:
        tensor = view(whole.to(getattr(torch, dtype)))
        exact = float(tensor.double().square().sum().sqrt())
        assert float(global_norm([tensor])) == pytest.approx(exact, rel=2.0**-24)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_tensors_that_no_one_axis_cuts_into_small_pieces(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    # As of 100,000,000 elements and more, in small.
    monkeypatch.setattr(_numpy, "CACHED", 1000)
    tensor = torch.from_numpy(np.random.default_rng(3).standard_normal((64, 64, 128))).to(getattr(torch, dtype))[
        ..., ::2
    ]
    exact = float(tensor.double().square().sum().sqrt())
    assert float(global_norm([tensor])) == pytest.approx(exact, rel=2.0**-24)
