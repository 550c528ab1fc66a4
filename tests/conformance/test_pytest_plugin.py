"""Check `pytest --pyargs gradclip_conformance --gradclip-adapter ...`. It makes one test for each cell."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HOSTS = Path(__file__).with_name("hosts")

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


@pytest.fixture
def run_suite(run_pytest: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Return a function that runs pytest on the installed suite in an empty folder."""
    return functools.partial(run_pytest, tmp_path, "--pyargs", "gradclip_conformance")


@pytest.mark.thorough(sample=0)
def test_each_cell_is_one_test(run_suite: Callable[..., Any]) -> None:
    done = run_suite("--gradclip-adapter", str(HOSTS / "right.py"), "-k", "each-tensor-alone", "-v")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "fake::norm.each-tensor-alone/both-above/float32] PASSED" in done.stdout
    assert "3 passed, 9 skipped" in done.stdout


def test_failure_is_a_failed_test_that_says_why(run_suite: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADCLIP_FAKE", "return_one_gradient_too_few")

    done = run_suite("--gradclip-adapter", str(HOSTS / "misbehaves.py"), "-k", "each-tensor-alone and float32")

    assert done.returncode == 1
    assert "1 gradient came back for 2." in done.stdout
    assert "1 failed, 2 passed" in done.stdout


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize(
    "text",
    [
        'import numpy\ndef clip(grads, *, clip_norm):\n    raise ValueError("\\x1b[31m\\u202e")\n',
        'raise ValueError("\\x1b[31m\\u202e")\n',
    ],
    ids=["call", "module"],
)
def test_text_of_a_function_has_no_meaning_for_the_terminal(
    text: str, tmp_path: Path, run_suite: Callable[..., Any]
) -> None:
    (tmp_path / "my_clips.py").write_text(text, encoding="utf-8")
    narrow = ["-k", "each-tensor-alone and both-above and float32", "--gradclip-op", "clip_by_norm", "--color=no"]

    done = run_suite("--gradclip-adapter", "my_clips:clip", *narrow)

    assert "ValueError: \\x1b[31m\\u202e" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.thorough(sample=0)
def test_host_that_hangs_costs_one_test(run_suite: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADCLIP_FAKE", "hang")
    narrow = ["-k", "each-tensor-alone and float32", "--gradclip-timeout", "1"]

    done = run_suite("--gradclip-adapter", str(HOSTS / "misbehaves.py"), *narrow)

    assert "timeout: No answer within 1 s" in done.stdout
    assert "1 failed, 2 passed" in done.stdout


@pytest.mark.thorough(sample=0)
def test_plain_function_is_checked(tmp_path: Path, run_suite: Callable[..., Any]) -> None:
    text = "def clip(grads, *, min, max):\n    return [None if g is None else g.clip(min, max) for g in grads]\n"
    (tmp_path / "my_clips.py").write_text(text, encoding="utf-8")
    narrow = ["-k", "bounds and float32"]

    done = run_suite("--gradclip-adapter", "my_clips:clip", "--gradclip-op", "clip_by_value", *narrow)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "no adapter is named: give --gradclip-adapter NAME"),
        (("--gradclip-adapter", "my_clips:clip"), "say with --gradclip-op which operation it performs"),
        (("--gradclip-adapter", "tensor-flow"), "the adapter 'tensor-flow' does not start (bad-target)"),
        (("--gradclip-adapter", str(HOSTS / "does_not_start.py")), "--gradclip-python EXE names a Python that has it."),
    ],
)
def test_adapter_that_cannot_be_checked_ends_the_collection_without_a_traceback(
    arguments: tuple[str, ...], says: str, run_suite: Callable[..., Any]
) -> None:
    done = run_suite(*arguments)

    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert says in done.stdout
    assert "pytest_plugin.py" not in done.stdout


@pytest.mark.thorough(sample=0)
def test_known_failures_apply_and_a_broken_file_ends_the_collection(
    tmp_path: Path, run_suite: Callable[..., Any]
) -> None:
    text = "from gradclip_adapters.plain import PlainFunction\n\n\ndef clip(grads, *, clip_norm):\n    return grads\n"
    (tmp_path / "wrong.py").write_text(f"{text}\n\nadapter = PlainFunction(clip, 'clip_by_norm')\n", encoding="utf-8")
    beside = tmp_path / "wrong.expectations.toml"
    entry = '[[known]]\nsubjects = ["*"]\nrules = ["norm.each-tensor-alone"]\nreason = ""\nurl = "u"\nchecked = ""\n'
    arguments = ("--gradclip-adapter", str(tmp_path / "wrong.py"), "-k", "each-tensor-alone and both-above and float32")
    beside.write_text(entry, encoding="utf-8")
    after = run_suite(*arguments)
    beside.write_text(entry.replace("rules", "rule"), encoding="utf-8")
    broken = run_suite(*arguments)

    # Without the entry, the cell would fail. An entry that excuses nothing is no "xfailed".
    assert after.returncode == 0
    assert " xfailed" in after.stdout
    assert broken.returncode == pytest.ExitCode.INTERRUPTED
    assert "there is no field 'rule'. Did you mean rules?" in broken.stdout
    assert "pytest_plugin.py" not in broken.stdout


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("seconds", ["nan", "0", "-1", "soon"])
def test_invalid_time_limit_is_refused(seconds: str, run_suite: Callable[..., Any]) -> None:
    done = run_suite("--gradclip-adapter", str(HOSTS / "right.py"), "--gradclip-timeout", seconds)

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--gradclip-timeout" in done.stderr


def test_plugin_imports_the_suite_only_when_used(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        "import sys\n\n\ndef test_other():\n    assert 'gradclip_conformance.run.runner' not in sys.modules\n",
        encoding="utf-8",
    )
    plugins = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=600)

    assert done.returncode == 0, done.stdout
