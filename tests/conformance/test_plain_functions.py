"""Check that plain functions and the suite do not harm each other in one process."""

from __future__ import annotations

import functools
import importlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradclip_adapters.contract import DTYPES, Call, Reply
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance import check_clipper
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.judge.model import Answer, Died, TimedOut
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.isolation import CannotIsolate, import_target
from gradclip_conformance.run.probing import Patience

NEGATIVE: dict[str, Any] = {"dtypes": ["float32"], "rule": "*.negative-threshold-refused"}

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def return_unchanged(grads: list[Any], *, clip_norm: float) -> list[Any]:
    return grads


def test_function_that_ends_the_process_costs_its_cells() -> None:
    def clip(grads: list[Any], *, clip_norm: float) -> list[Any]:
        sys.exit(0)

    results = check_clipper(clip, "clip_by_norm", isolated=False, **NEGATIVE)

    asked = [result for result in results if result["status"] != "unsupported"]
    assert {result["status"] for result in asked} == {"crash"}
    assert {result["detail"] for result in asked} == {"The call would have ended a host process: SystemExit: 0"}


def test_interruption_ends_the_check() -> None:
    def interrupt(grads: list[Any], *, clip_norm: float) -> list[Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_clipper(interrupt, "clip_by_norm", isolated=False, **NEGATIVE)


@pytest.mark.parametrize("dtype", DTYPES)
def test_abilities_are_found_out_by_calls_that_cases_also_make(dtype: str) -> None:
    asked: list[Call] = []

    class Asks(PlainFunction):
        def _answer(self, call: Call) -> Reply:
            asked.append(call)
            return super()._answer(call)

    (subject,) = InProcess(Asks(return_unchanged, "clip_by_global_norm", (dtype,))).description.subjects

    assert len(asked) == 2
    assert all(call in [case.call(subject.name) for case in list_all_cases()] for call in asked)


MISBEHAVING = """
import ctypes
import os
import time
import numpy as np

def right(grads, *, clip_norm):
    if clip_norm < 0:
        raise ValueError("negative")
    return list(grads)

def leaves(grads, *, clip_norm):
    os._exit(3)

def dies(grads, *, clip_norm):
    ctypes.string_at(0)

def hangs(grads, *, clip_norm):
    time.sleep(3600)

def signals(grads, *, clip_norm):
    # This signal has no name.
    os.kill(os.getpid(), 40)

def takes_much(grads, *, clip_norm):
    return [np.ones(1 << 29, np.float64).astype(g.dtype)[:g.size] for g in grads]

def returns_much(grads, *, clip_norm):
    return [np.broadcast_to(np.float32(1), (1 << 30,))]
"""


@pytest.fixture
def misbehaving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import a module of functions that end, block or overload their process."""
    (tmp_path / "misbehaving.py").write_text(MISBEHAVING, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("misbehaving")
    del sys.modules["misbehaving"]


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("operation", ["clip_by_norm", "clip_by_global_norm"])
@pytest.mark.parametrize(("name", "said"), [("leaves", "exit code 3"), ("dies", "SIGSEGV"), ("signals", "signal 40.")])
def test_function_that_ends_its_process_at_once_costs_its_cells(
    operation: str, name: str, said: str, misbehaving: Any
) -> None:
    results = check_clipper(getattr(misbehaving, name), operation, **NEGATIVE)

    asked = [result for result in results if result["status"] != "unsupported"]
    assert results.isolated
    assert {result["status"] for result in asked} == {"crash"}
    assert all(said in result["detail"] for result in asked)


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("operation", ["clip_by_norm", "clip_by_global_norm"])
def test_function_that_hangs_in_its_first_call_costs_its_cells(operation: str, misbehaving: Any) -> None:
    results = check_clipper(misbehaving.hangs, operation, timeout=1, **NEGATIVE)

    # The function takes no order of the norm, so a case with one is not asked.
    results = [result for result in results if result["status"] != "unsupported"]
    assert {result["status"] for result in results} == {"timeout"}
    said = Counter(result["detail"] for result in results)
    # Two calls find out whether the norm is returned. No chosen case makes the same calls.
    asked = 3 if operation == "clip_by_norm" else 1
    assert said["No answer within 1 s; the suite ended the host process. The option `timeout` sets the limit."] == asked
    assert len(results) > asked
    assert all("3 calls of misbehaving:hangs in a row had hung" in text for text in [*said][1:])


@pytest.mark.parametrize(("answers", "asked"), [("hhhhh", 3), ("hahhhhh", 7), ("a" + "h" * 30, 21), ("hahahah", 7)])
def test_subject_that_hangs_repeatedly_gets_no_more_calls(answers: str, asked: int) -> None:
    patience, calls = Patience(), []

    def ask() -> Answer:
        calls.append(1)
        return TimedOut(1.0) if answers[len(calls) - 1] == "h" else Died("")

    found = [patience.ask(Call("clip", (), {}), ask) for _ in answers]

    assert len(calls) == asked
    assert all(isinstance(one, TimedOut) and "in a row had hung" in one.text for one in found[asked:])
    assert patience.ask(Call("another", (), {}), lambda: Died("another subject")) == Died("another subject")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a limit of memory needs Linux")
@pytest.mark.parametrize(
    ("name", "statuses", "said"),
    [
        ("takes_much", {"fail", "crash"}, "[Mm]emory"),
        # The answer of gigabytes is not packed.
        ("returns_much", {"fail"}, "takes 4,294,967,296 bytes"),
    ],
)
def test_memory_of_a_function_is_limited(name: str, statuses: set[str], said: str, misbehaving: Any) -> None:
    function = getattr(misbehaving, name)

    results = check_clipper(function, "clip_by_norm", memory="1G", rule="norm.at-threshold/*/float32")

    assert results
    assert {result["status"] for result in results} <= statuses
    assert all(re.search(said, result["detail"]) for result in results)


def test_closure_runs_in_this_process_and_says_why() -> None:
    def clip_nothing(grads: list[Any], *, clip_norm: float) -> list[Any]:
        return grads

    results = check_clipper(clip_nothing, "clip_by_norm", **NEGATIVE)

    assert not results.isolated
    assert "The reason: a lambda, or a function inside a function, cannot be imported" in results.note
    assert results.note in str(results)
    for needs_process in ({"isolated": True}, {"memory": "1G"}):
        with pytest.raises(ValueError, match="cannot run in a process of its own, because a lambda"):
            check_clipper(clip_nothing, "clip_by_norm", **needs_process)


@pytest.mark.thorough(sample=0)
def test_both_processes_give_the_same_cells(misbehaving: Any) -> None:
    found = [
        check_clipper(
            misbehaving.right, "clip_by_global_norm", dtypes=["float32"], rule="global-norm.*-kept", isolated=isolated
        )
        for isolated in (True, False)
    ]
    for cell in (cell for cells in found for cell in cells):
        del cell["seconds"]

    assert list(found[0]) == list(found[1])


SCRIPT = """
from gradclip_conformance import check_clipper

def clip(grads, *, clip_norm):
    return list(grads)

if __name__ == "__main__":
    print(check_clipper(clip, "clip_by_norm", dtypes=["float32"], rule="norm.at-threshold").isolated)
"""


@pytest.mark.thorough(sample=0)
def test_function_of_a_running_script_is_isolated(tmp_path: Path) -> None:
    """`test_refused_arguments.py` has the scripts that no other process may import."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")

    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=300)

    assert done.stdout == "True\n", done.stderr


def test_function_that_another_module_would_hide_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, misbehaving: Any
) -> None:
    assert import_target(misbehaving.right) == "misbehaving:right"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "misbehaving.py").write_text("def right(grads, *, clip_norm): ...\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "other")

    with pytest.raises(CannotIsolate, match="would not find the module 'misbehaving'"):
        import_target(misbehaving.right)


@pytest.mark.parametrize("function", [functools.partial(return_unchanged), "text", [].append])
def test_callable_without_a_name_in_a_module_is_not_imported(function: Any) -> None:
    with pytest.raises(CannotIsolate, match=r"no name by which|names something else"):
        import_target(function)


STRICT = """
import gc
import threading
import numpy as np
from gradclip_conformance import check_clipper

def clip(grads, *, max, min=None):
    # NumPy starts each thread with its default error handling.
    assert np.geterr() == strict or threading.current_thread() is not threading.main_thread()
    np.seterr(under="print")
    return [None if grad is None else np.clip(grad, -max if min is None else min, max) for grad in grads]

np.seterr(all="raise")
gc.set_threshold(600, 9, 8)
strict = np.geterr()
results = check_clipper(clip, "clip_by_value", dtypes=["float16", "float64"], rule="value.n*")
print(sorted({result["status"] for result in results}), np.geterr() == strict, gc.get_threshold())
"""


@pytest.mark.thorough(sample=0)
def test_function_may_make_floating_point_errors_raise() -> None:
    # This needs a new process, because a process builds the cases only once.
    command = [sys.executable, "-W", "error", "-c", STRICT]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    # The function changes the settings, which breaks a rule. The next call and the caller find their own settings.
    assert done.stdout == "['fail', 'unspecified', 'unsupported'] True (600, 9, 8)\n", done.stderr
