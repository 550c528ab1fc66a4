"""Check that plain functions and the suite do not harm each other, and what `check_clipper` refuses to call."""

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

import numpy as np
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

    (entry_point,) = InProcess(Asks(return_unchanged, "clip_by_global_norm", (dtype,))).description.subjects

    assert len(asked) == 2
    assert all(call in [case.call(entry_point.name) for case in list_all_cases()] for call in asked)


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
def test_entry_point_that_hangs_repeatedly_gets_no_more_calls(answers: str, asked: int) -> None:
    patience, calls = Patience(), []

    def ask() -> Answer:
        calls.append(1)
        return TimedOut(1.0) if answers[len(calls) - 1] == "h" else Died("")

    found = [patience.ask(Call("clip", (), {}), ask) for _ in answers]

    assert len(calls) == asked
    assert all(isinstance(one, TimedOut) and "in a row had hung" in one.text for one in found[asked:])
    assert patience.ask(Call("another", (), {}), lambda: Died("another entry point")) == Died("another entry point")


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


calls: list[Any] = []


def note_call(grads: Any, *, clip_norm: float) -> Any:
    calls.append(clip_norm)
    return list(grads)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"op": "clip_by_norms"}, "Unknown `op` 'clip_by_norms'; choose one of clip_by_value, "),
        ({"dtypes": ["float32", "float23"]}, "Unknown dtype float23; choose among float16, "),
        *(({"timeout": timeout}, "`timeout` is a number of seconds above 0") for timeout in (0, -1, float("nan"))),
        ({"memory": "4G", "isolated": False}, "leave out `isolated=False`"),
        ({"memory": "much"}, "'much' is not a size of memory; write 4G"),
        *(({"memory": memory}, "of memory") for memory in ("4X", "-1G", "1", "9" * 400, 0)),
        *(
            ({"formula": formula}, "is not a formula such as 'coefficient:1e-6'")
            for formula in ("eps:1", "coefficient:", "coefficient:x", "coefficient:-1", "coefficient:nan")
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_invalid_argument_is_refused_with_what_to_give(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_clipper(note_call, **{"op": "clip_by_norm", **arguments})

    assert calls == []


CHECKS_WHEN_IMPORTED = """
from gradclip_conformance import check_clipper

def clip(grads, *, max):
    return [grad.clip(-max, max) for grad in grads]

try:
    print(check_clipper(clip, op="clip_by_value", dtypes=["float32"], rule="value.zero-threshold", isolated=True))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    raise
"""


@pytest.mark.thorough(sample=0)
def test_error_names_a_module_that_starts_a_check_when_imported(tmp_path: Path) -> None:
    """Check that such a module does not start hosts without end. Each host imports the module."""
    (tmp_path / "checks_when_imported.py").write_text(CHECKS_WHEN_IMPORTED, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-c", "import checks_when_imported"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    assert done.returncode == 1
    assert "while the process of another check imports it." in done.stdout
    assert "Put the call under `if __name__ == '__main__':`." in done.stdout


@pytest.mark.parametrize(
    ("text", "is_harmless"),
    [
        ("import math\nLIMIT: float = 1.0\n'A text.'\ndef clip(): pass\nclass A: pass\n", True),
        ("if __name__ == '__main__':\n    print('run')\n", True),
        ("if __name__ == '__main__':\n    pass\nelse:\n    print('imported')\n", False),
        ("for number in range(3):\n    pass\n", False),
        ("LIMIT = float('1')\n", False),
        ("print('run')\n", False),
        ("def clip(:\n", False),
    ],
    ids=["definitions", "guarded", "else", "loop", "called", "prints", "malformed"],
)
def test_script_is_imported_only_if_it_only_defines(
    text: str, is_harmless: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a function of a running script gets its own process only if importing the script runs nothing."""
    script = tmp_path / "script.py"
    script.write_text(text, encoding="utf-8")
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__file__", str(script), raising=False)

    def clip_values(grads: Any, *, max: float) -> Any:
        return [np.clip(gradient, -max, max) for gradient in grads]

    clip_values.__module__, clip_values.__qualname__ = "__main__", "clip_values"
    monkeypatch.setattr(main, "clip_values", clip_values, raising=False)

    if is_harmless:
        assert import_target(clip_values) == f"{script}:clip_values"
    else:
        with pytest.raises(CannotIsolate, match="importing the script would run it again"):
            import_target(clip_values)
