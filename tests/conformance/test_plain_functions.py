"""Plain functions in the process of the suite: neither is harmed by what the other does to the process."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from gradclip_adapters.contract import DTYPES, Call, Reply
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance import check_clipper
from gradclip_conformance.cases.catalogue import all_cases


def ends(grads: list[Any], *, clip_norm: float) -> list[Any]:
    """Refuses a threshold as a program does, not a function."""
    if clip_norm < 0:
        sys.exit(0)
    return grads


def ends_at_once(grads: list[Any], *, clip_norm: float) -> list[Any]:
    """Takes no call at all."""
    sys.exit(0)


def returns_no_norm(grads: list[Any], *, clip_norm: float) -> list[Any]:
    """Not a clip."""
    return grads


def is_interrupted(grads: list[Any], *, clip_norm: float) -> list[Any]:
    """Met by a Ctrl-C."""
    raise KeyboardInterrupt


def test_function_that_ends_the_process_costs_its_cells() -> None:
    results = check_clipper(ends, "clip_by_norm", dtypes=["float32"], rule="norm.negative-threshold-refused")

    assert {result["status"] for result in results} == {"crash"}
    assert {result["detail"] for result in results} == {"The call would have ended a host process: SystemExit: 0"}


@pytest.mark.parametrize("dtype", DTYPES)
def test_calls_before_all_others_are_calls_of_cases(dtype: str) -> None:
    asked: list[Call] = []

    class Asks(PlainFunction):
        def _answer(self, call: Call) -> Reply:
            asked.append(call)
            return super()._answer(call)

    (subject,) = Asks(returns_no_norm, "clip_by_global_norm", (dtype,)).subjects()

    assert len(asked) == 2
    assert all(call in [case.call(subject.name) for case in all_cases()] for call in asked)


def test_function_that_ends_the_process_at_once_costs_its_cells() -> None:
    results = check_clipper(ends_at_once, "clip_by_global_norm", dtypes=["float32"], rule="global-norm.at-threshold")

    assert {result["status"] for result in results} == {"crash"}


def test_interruption_ends_the_check() -> None:
    with pytest.raises(KeyboardInterrupt):
        check_clipper(is_interrupted, "clip_by_norm", dtypes=["float32"], rule="norm.at-threshold")


STRICT = """
import threading
import numpy as np
from gradclip_conformance import check_clipper

def clip(grads, *, max, min=None):
    # NumPy begins each thread with its defaults.
    assert np.geterr() == strict or threading.current_thread() is not threading.main_thread()
    np.seterr(under="print")
    return [None if grad is None else np.clip(grad, -max if min is None else min, max) for grad in grads]

np.seterr(all="raise")
strict = np.geterr()
results = check_clipper(clip, "clip_by_value", dtypes=["float16", "float64"])
print(sorted({result["status"] for result in results}), np.geterr() == strict)
"""


def test_floating_point_errors_that_raise_are_the_functions_alone() -> None:
    # In a process of its own, because cases are built once in each.
    command = [sys.executable, "-W", "error", "-c", STRICT]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    assert done.stdout == "['pass', 'unspecified', 'unsupported'] True\n", done.stderr
