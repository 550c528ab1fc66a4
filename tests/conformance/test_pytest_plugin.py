"""Check the pytest plugin in processes of pytest, as a maintainer's tests run: `--gradclip-adapter` and `@conforms`."""

from __future__ import annotations

import functools
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gradclip_conformance import check_clipper, conforms
from gradclip_conformance.decorator import OPTIONS
from gradclip_conformance.pytest_parts import list_parts

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


#: A clip function that flips the signs for a negative threshold, and may return another dtype. The rest is right.
FUNCTION = """
import math

def clip(grads, *, clip_norm):
    norm = math.hypot(*(float(x) for g in grads if g is not None for x in g.ravel()))
    scale = clip_norm / norm if norm > clip_norm else 1
    return [g if g is None or scale == 1 else (g * scale){cast} for g in grads]
"""

TESTS = """
from gradclip_conformance import conforms


@conforms("clip_by_global_norm", dtypes=["float32"], rule="global-norm.ne*", per="{per}")
def test_clip():
    "Clip as the documentation says."
    from my_clips import clip
    return clip
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a clip function and a test file that names it."""
    (tmp_path / "my_clips.py").write_text(FUNCTION.format(cast=".astype(g.dtype)"), encoding="utf-8")
    (tmp_path / "test_mine.py").write_text(TESTS.format(per="finding"), encoding="utf-8")
    return tmp_path


@pytest.mark.thorough(sample=1)
def test_failing_finding_is_a_failed_test_that_explains_itself(folder: Path, run_pytest: Callable[..., Any]) -> None:
    done = run_pytest(folder, "--junitxml", "junit.xml", "-rA")

    assert done.returncode == 1
    assert "FAILED test_mine.py::test_clip[negative-threshold]" in done.stdout
    assert "1 failed" in done.stdout
    assert "the gradients change their signs" in done.stdout or "negative threshold is not refused" in done.stdout
    assert "input      {gradients: [float32[" in done.stdout
    assert "decorator.py" not in done.stdout
    assert "pytest_parts.py" not in done.stdout
    assert "PASSED test_mine.py::test_clip[anything-else]" in done.stdout
    (failure,) = ElementTree.parse(folder / "junit.xml").findall(".//failure")
    assert "negative threshold" in str(failure.text)


def test_example_of_the_manual_makes_a_test_for_each_finding(folder: Path, run_pytest: Callable[..., Any]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "pytest.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (folder / "test_mine.py").write_text(block, encoding="utf-8")

    done = run_pytest(folder, "--collect-only", "-q")

    assert "test_mine.py::test_my_clip[negative-threshold]" in done.stdout
    assert "test_mine.py::test_my_clip[anything-else]" in done.stdout


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("arguments", [("-x",), ("-n", "4")])
def test_check_is_made_once_with_option_x_and_in_several_processes(
    arguments: tuple[str, ...], folder: Path, run_pytest: Callable[..., Any]
) -> None:
    (folder / "my_clips.py").write_text(
        FUNCTION.format(cast=".astype('float64')") + "\nopen('checks.txt', 'a').write('x')\n", encoding="utf-8"
    )

    done = run_pytest(folder, *arguments)

    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert ("stopping after 1 failures" in done.stdout) == ("-x" in arguments)
    # The module is imported by the process of pytest that makes the check, and by the host of the function.
    assert (folder / "checks.txt").read_text() == "xx"


def test_check_that_does_not_run_fails_once(folder: Path, run_pytest: Callable[..., Any]) -> None:
    (folder / "my_clips.py").unlink()

    done = run_pytest(folder, "-rs")

    assert done.returncode == 1
    assert "The check did not run: ModuleNotFoundError: No module named 'my_clips'" in done.stdout
    assert re.search(r"1 failed, \d+ skipped in", done.stdout)
    assert "the check did not run, and test_mine.py::test_clip[" in done.stdout


def test_only_a_clip_by_value_has_tests_of_its_causes() -> None:
    of_value, of_norm = (
        {part.name for part in list_parts("key", "finding", lambda: pytest.fail("made"), [operation])}
        for operation in ("clip_by_value", "clip_by_norm")
    )

    assert {name for name in of_value - of_norm if not name.startswith("value-")} == set()
    assert "value-nan-lost" in of_value - of_norm


@pytest.mark.thorough(sample=0)
def test_each_rule_is_one_test(folder: Path, run_pytest: Callable[..., Any]) -> None:
    (folder / "test_mine.py").write_text(TESTS.format(per="rule"), encoding="utf-8")

    done = run_pytest(folder, "-rA")

    assert "FAILED test_mine.py::test_clip[global-norm.negative-threshold-refused]" in done.stdout
    assert "PASSED test_mine.py::test_clip[global-norm.neighbours-of-threshold]" in done.stdout
    assert re.search(r"\d of \d+ cells of global-norm\.negative-threshold-refused are not as expected\.", done.stdout)
    assert "SKIPPED" in done.stdout
    assert "PASSED test_mine.py::test_clip[anything-else]" in done.stdout


@pytest.mark.thorough(sample=0)
def test_adapter_has_one_test_for_each_finding(
    tmp_path: Path, run_pytest: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADCLIP_FAKE", "return_one_gradient_too_few")
    arguments = ("--pyargs", "gradclip_conformance", "--gradclip-adapter", str(HOSTS / "misbehaves.py"))

    done = run_pytest(tmp_path, *arguments, "--gradclip-per", "finding", "-rfE")

    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert "test_conforms[wrong-form]" in done.stdout
    assert "2 failed" in done.stdout
    assert "pytest_parts.py" not in done.stdout


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('@conforms(op="by_norm")\ndef test_clip(): pass', "Unknown `op` 'by_norm'"),
        ("@conforms\ndef test_clip(): pass", r"needs the operation: write @conforms\(op=...\)"),
        ('@conforms("clip_by_norm", dtype=["float32"])\ndef test_clip(): pass', "no option 'dtype'; it takes dtypes"),
        (
            '@conforms("clip_by_norm")\ndef test_clip(grads): pass',
            "must take no arguments and return the clip function",
        ),
    ],
)
def test_mistake_of_the_test_file_is_named(body: str, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        exec(body, {"conforms": conforms})


def test_decorator_takes_the_options_of_the_check() -> None:
    parameters = inspect.signature(check_clipper).parameters.values()

    assert tuple(one.name for one in parameters if one.kind == one.KEYWORD_ONLY) == OPTIONS


def test_marks_below_the_decorator_are_kept() -> None:
    @conforms("clip_by_norm")
    @pytest.mark.parametrize("number", [1])
    def test_clip() -> Any:
        """Return a clip function."""

    (mark,) = test_clip.pytestmark  # type: ignore[attr-defined]
    assert mark.args == ("number", [1])
    assert (test_clip.__name__, test_clip.__doc__) == ("test_clip", "Return a clip function.")
    assert list(inspect.signature(test_clip).parameters) == ["gradclip_check"]
