"""Check calls from several threads at once. The calls overlap, and a difference in one of the answers is reported."""

from __future__ import annotations

import itertools
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradclip_adapters import arrays
from gradclip_adapters.arrays import ROUNDS, answer_in_threads
from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Reply, framework_call

CALL = Call("s", (Gradient("g", Array.of(np.array([1.0, 2.0, 3.0]))), Gradient("n", None)), {"threads": 4, "max": 1.0})


def return_unchanged(call: Call) -> Reply:
    """Return the gradients through a framework that does nothing."""
    with framework_call():
        pass
    return Reply(tuple(gradient.array for gradient in call.gradients))


def read_elements(call: Call) -> list[float]:
    array = call.gradients[0].array
    assert array is not None
    values: list[float] = array.numpy().tolist()
    return values


def test_half_of_the_threads_make_a_call_with_other_elements_flags_and_options() -> None:
    excluded = replace(CALL.gradients[0], need_clip=False)
    seen = []

    def answer(call: Call) -> Reply:
        flags = [gradient.need_clip for gradient in call.gradients]
        seen.append((read_elements(call), call.gradients[1].array, flags, dict(call.options)))
        return return_unchanged(call)

    options = {"threads": 4, "clip_norm": 3.0, "norm_type": 1.0}
    answer_in_threads(Call("s", (*CALL.gradients, excluded), options), answer)

    none = CALL.gradients[1].array
    same = ([1.0, 2.0, 3.0], none, [True, True, False], {"clip_norm": 3.0, "norm_type": 1.0})
    other = ([1.0, 0.0, 3.0], none, [False, False, True], {"clip_norm": 1.5, "norm_type": 2.0})
    assert seen[0] == same
    assert seen[-4 * ROUNDS :].count(same) == seen[-4 * ROUNDS :].count(other) == 2 * ROUNDS
    assert seen.count(same) + seen.count(other) == len(seen)


def test_other_call_runs_between_two_lines_of_the_call() -> None:
    steps: list[str] = []

    def answer(call: Call) -> Reply:
        name = "same" if read_elements(call)[1] else "other"

        def run_framework() -> None:
            steps.append(name)
            steps.append("end of " + name)

        with framework_call():
            run_framework()
        return Reply(tuple(gradient.array for gradient in call.gradients))

    answer_in_threads(CALL, answer)

    assert ["same", "other", "end of other", "end of same"] in [steps[i : i + 4] for i in range(len(steps))]


def test_call_that_holds_a_lock_does_not_block() -> None:
    lock = threading.Lock()

    def call_framework(call: Call) -> Reply:
        with lock:
            return Reply(tuple(gradient.array for gradient in call.gradients))

    def answer(call: Call) -> Reply:
        with framework_call():
            return call_framework(call)

    assert answer_in_threads(CALL, answer) == return_unchanged(CALL)


def test_only_one_thread_at_a_time_sets_its_trace_function(monkeypatch: pytest.MonkeyPatch) -> None:
    # Python raises a RuntimeError if a thread sets its trace function while another thread does so.
    setting, alone, overlaps = sys.settrace, threading.Lock(), []

    def set_slowly(trace: Any) -> None:
        if not alone.acquire(blocking=False):
            overlaps.append(threading.current_thread())
            return
        try:
            time.sleep(0.01)
            setting(trace)
        finally:
            alone.release()

    monkeypatch.setattr(sys, "settrace", set_slowly)

    def trace(_: int) -> None:
        with arrays._trace_lines(int):
            pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(trace, range(8)))

    assert not overlaps


def test_threads_are_in_the_framework_together(monkeypatch: pytest.MonkeyPatch) -> None:
    # Leave out the interrupted calls: at most two of them run at a time, so four never meet at the barrier.
    monkeypatch.setattr(arrays, "_interrupt_everywhere", lambda *_: iter(()))
    meeting = threading.Barrier(4, timeout=600)
    met = []

    def answer(call: Call) -> Reply:
        with framework_call():
            if threading.current_thread() is not threading.main_thread():
                meeting.wait()
                met.append(call)
        return Reply(())

    answer_in_threads(CALL, answer)

    assert len(met) == 4 * ROUNDS


@pytest.mark.parametrize("different", range(2 * ROUNDS))
@pytest.mark.parametrize(
    "other",
    [Reply((Array.of(np.zeros(3)), None)), replace(return_unchanged(CALL), norm=Array.of(np.float64(1.0)))],
    ids=["gradients", "norm"],
)
def test_one_answer_that_differs_is_the_reply(different: int, other: Reply) -> None:
    same = itertools.count()

    def answer(call: Call) -> Reply:
        mine = read_elements(call) == [1.0, 2.0, 3.0] and next(same) == 1 + different
        reply = return_unchanged(call)
        return other if mine else reply

    assert answer_in_threads(CALL, answer) == other


@pytest.mark.parametrize(
    ("is_early", "error"), [(False, FrameworkRaised), (True, ArithmeticError)], ids=["framework", "adapter"]
)
def test_error_of_one_thread_is_raised_and_no_other_thread_waits(
    is_early: bool, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The interrupted calls come first, and would raise the error before the threads meet.
    monkeypatch.setattr(arrays, "_interrupt_everywhere", lambda *_: iter(()))

    def refuse_zeros(call: Call) -> None:
        if read_elements(call)[1] == 0:
            message = "no zeros"
            raise ArithmeticError(message)

    def answer(call: Call) -> Reply:
        if is_early:
            refuse_zeros(call)
        with framework_call():
            refuse_zeros(call)
        return Reply(())

    with pytest.raises(error, match="no zeros"):
        answer_in_threads(CALL, answer)


def test_warnings_are_caught_and_filters_restored() -> None:
    def answer(call: Call) -> Reply:
        with framework_call() as seen:
            warnings.warn("loud", UserWarning, stacklevel=1)
        return Reply((), warnings=seen.warnings)

    filters, shown = list(warnings.filters), warnings.showwarning
    reply = answer_in_threads(CALL, answer)

    assert reply.warnings == ("UserWarning: loud",)
    assert list(warnings.filters) == filters
    assert warnings.showwarning is shown
