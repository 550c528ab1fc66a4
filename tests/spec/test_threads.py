"""Check clips on several threads. The results equal those of one thread, and no thread outlives its call."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradclip_spec import clip_by_global_norm, global_norm
from gradclip_spec.kernels import threads

#: Shapes with enough elements for several threads. The elements cannot be divided evenly.
SHAPES: list[tuple[int, ...]] = [(1_000_001,), (300, 401), (7,), (), (1_200_003,), (64, 64)]


def make_gradients(dtype: str) -> list[np.ndarray[Any, Any]]:
    """Return arrays of these shapes and one view that is not contiguous."""
    random = np.random.default_rng(5)
    arrays = [np.asarray(random.standard_normal(shape).astype(dtype)) for shape in SHAPES]
    return [*arrays, random.standard_normal((70, 30, 40)).astype(dtype)[:, ::2, 1:]]


@pytest.fixture(params=["compiled", "plain"])
def loops(request: pytest.FixtureRequest, use_loops: Any) -> str:
    """Run a test once with compiled loops and once without."""
    use_loops(request.param)
    return str(request.param)


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_do_not_depend_on_the_number_of_threads(
    dtype: str, inplace: bool, loops: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()
    for count in (1, 3, 8):
        monkeypatch.setenv("OMP_NUM_THREADS", str(count))
        results, norm = clip_by_global_norm(make_gradients(dtype), 1.0, inplace=inplace)
        seen.add((float(norm), b"".join(result.tobytes() for result in results)))
    assert len(seen) == 1


def test_work_is_spread_over_threads() -> None:
    names: dict[int, str] = {}
    meeting = threading.Barrier(3, timeout=600)

    def fill(first: int, last: int) -> None:
        meeting.wait()
        names.update(dict.fromkeys(range(first, last), threading.current_thread().name))

    threads.spread(fill, [1 << 20] * 9, 3)
    assert sorted(names) == list(range(9)), "a part was left out"
    assert len(set(names.values())) == 3


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("sizes", [[], [100], [0, 0], [1000, 0, 0], [0, 1000], [1] * 7, [1, 1000, 1], [1 << 21, 5, 7]])
def test_each_part_is_processed_once(sizes: list[int], count: int) -> None:
    done: list[int] = []
    threads.spread(lambda first, last: done.extend(range(first, last)), sizes, count)
    assert sorted(done) == list(range(len(sizes)))


@pytest.mark.parametrize("failing", [0, 3])
def test_an_error_is_raised_after_all_threads_have_ended(failing: int) -> None:
    ended = []

    def fail(first: int, last: int) -> None:
        if first <= failing < last:
            message = "out of memory"
            raise MemoryError(message)
        time.sleep(0.1)
        ended.append(first)

    with pytest.raises(MemoryError, match="out of memory"):
        threads.spread(fail, [1 << 20] * 4, 2)
    assert len(ended) <= 1
    assert threading.active_count() == 1 or not any("work_on" in str(x) for x in threading.enumerate())


def test_overflow_gives_no_warning_in_any_thread(loops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    grads = [np.full(1_500_000, 1e30, np.float32) for _ in range(4)]
    assert float(global_norm(grads)) == pytest.approx(1e30 * 6_000_000**0.5, rel=2.0**-23)
    grads[3][-1] = np.inf
    # In the last thread, infinity times zero is NaN.
    clipped, _ = clip_by_global_norm(grads, 1.0)
    assert np.isnan(clipped[3][-1])


def test_no_two_threads_write_to_one_element(loops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for count in ("1", "4"):
        monkeypatch.setenv("OMP_NUM_THREADS", count)
        memory = np.full((1 << 22) + 2, 2.0, np.float32)
        clip_by_global_norm([memory[: (1 << 21) + 1], memory[1 << 21 :]], 1.0, inplace=True)
        # The element that both arrays hold is scaled twice.
        assert memory[1 << 21] == pytest.approx(memory[0] ** 2 / 2, rel=1e-6)


def test_calls_outside_the_main_thread_use_one_thread() -> None:
    counts: list[int] = []
    thread = threading.Thread(target=lambda: counts.append(threads.count_available()))
    thread.start()
    thread.join()
    assert counts == [1]


@pytest.mark.parametrize(("value", "count"), [("1", 1), ("3", 3), ("4,2", 4), (" 2 , 1", 2)])
def test_environment_sets_the_number_of_threads(value: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert threads.count_available() == count


@pytest.mark.parametrize("value", ["", "0", "²", "many", ",2"])
def test_invalid_numbers_of_threads_are_ignored(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    default = threads.count_available()
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert threads.count_available() == default >= 1


@pytest.mark.parametrize(("text", "cores"), [("200000 100000", 2), ("150000 100000", 2), ("max 100000", None)])
def test_quota_of_a_container_limits_the_threads(text: str, cores: int | None, tmp_path: Path) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(text, encoding="ascii")
    assert threads._read_quota(file) == (cores or 1 << 20)
    assert threads._read_quota(tmp_path / "none") == 1 << 20


def test_clip_works_if_no_thread_can_be_started(loops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")

    def refuse(thread: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    clipped, norm = clip_by_global_norm([np.full(1 << 20, 2.0, np.float32) for _ in range(8)], 1.0)
    assert float(norm) == pytest.approx(2 * 8**0.5 * 2**10)
    assert len({float(x) for array in clipped for x in np.unique(array)}) == 1


def test_no_thread_and_no_array_is_left_when_a_call_returns(loops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    before = threading.enumerate()
    array = np.ones(1 << 22, np.float32)
    kept = weakref.ref(array)
    assert float(global_norm(array)) == 2048
    assert threading.enumerate() == before
    del array
    assert kept() is None


FORKING = """
import multiprocessing
import numpy as np
from gradclip_spec import global_norm

def norm_of(sender, grads):
    sender.send(float(global_norm(grads)))

grads = [np.random.default_rng(5).standard_normal(2_000_003).astype(np.float32) for _ in range(2)]
expected = float(global_norm(grads))
receiver, sender = multiprocessing.Pipe(duplex=False)
process = multiprocessing.get_context("fork").Process(target=norm_of, args=(sender, grads))
process.start()
assert receiver.poll(60), "the child hangs"
assert receiver.recv() == expected
process.join(60)
"""

AT_EXIT = """
import atexit
import numpy as np
from gradclip_spec import global_norm

grads = [np.random.default_rng(5).standard_normal(2_000_003).astype(np.float32) for _ in range(2)]
expected = float(global_norm(grads))
atexit.register(lambda: print("same" if float(global_norm(grads)) == expected else "another"))
"""


@pytest.mark.thorough(sample=1)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is missing on this system")
@pytest.mark.parametrize("program", [FORKING, AT_EXIT], ids=["fork", "exit"])
def test_clip_works_after_a_fork_and_at_exit(program: str) -> None:
    # This runs in a new process, because some imported libraries have threads and warn of every fork.
    environment = os.environ | {"OMP_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout in ("", "same\n")
