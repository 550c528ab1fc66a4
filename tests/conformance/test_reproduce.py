"""Scripts that show a cell by themselves: each known deviation's fails where the framework does, others do not.

A variable such as GRADCLIP_PYTHON_TORCH names a Python that has the framework; without it this Python is used where
it has the framework itself. Naming a framework in GRADCLIP_REQUIRE makes its absence an error.
"""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases import all_cases
from gradclip_conformance.command_line import gradclip
from gradclip_conformance.deviations import load_deviations, unmatched
from gradclip_conformance.host_process import HostProcess, host_command
from gradclip_conformance.in_process import InProcess
from gradclip_conformance.patterns import matches
from gradclip_conformance.plan import Selection
from gradclip_conformance.reproduce import NoScript, script
from gradclip_conformance.runner import RunRequest, run_adapter
from gradclip_reports.records import Run

DRIVER = Path(__file__).with_name("run_scripts.py")

#: The adapters with known deviations, and the module that a script imports.
MODULES = {"torch": "torch", "paddle": "paddle", "paddle-fluid": "paddle.fluid", "tensorflow": "tensorflow"}

#: Cases that every framework passes somewhere, so that their scripts must not fail.
RIGHT = tuple(
    case.id
    for case in all_cases()
    if case.dtype == "float32"
    and case.rule.partition(".")[2]
    in ("scaled-above", "identity-below", "bounds", "each-tensor-alone", "nan-not-silent")
)


def python_with(adapter: str) -> str:
    """A Python that has an adapter's framework; the test is skipped, or fails where it is required, without one."""
    variable = f"GRADCLIP_PYTHON_{adapter.upper().replace('-', '_')}"
    if named := os.environ.get(variable):
        return named
    module = MODULES[adapter]
    if adapter != "paddle-fluid" and importlib.util.find_spec(module) is not None:
        return sys.executable
    message = f"{module} is not installed in this Python; {variable} can name one that has it"
    if adapter in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        pytest.fail(message)
    pytest.skip(message)


def run_cases(adapter: str, python: str, cases: tuple[str, ...]) -> Run:
    def connect() -> HostProcess:
        return HostProcess([*host_command(python, None), adapter])

    return run_adapter(RunRequest(adapter, connect, Selection(cases=cases), timeout=120.0), io.StringIO())


def outcomes(adapter: str, python: str, run: Run, status: str, folder: Path) -> dict[str, str]:
    """What becomes of the scripts of all cells with a status that have one, by cell."""
    paths = {}
    for number, cell in enumerate(cell for cell in run.cells if cell.status == status):
        path = folder / f"{status}{number}.py"
        try:
            path.write_text(script(run.header, cell), encoding="utf-8")
        except NoScript:
            assert status == "pass", f"no script for {cell.case} of {cell.subject}"
            continue
        paths[str(path)] = f"{cell.case} of {cell.subject}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, DRIVER, MODULES[adapter], *paths],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=500,
    )
    lines = [line.rpartition(" ") for line in done.stdout.splitlines() if line.endswith(".py")]
    found = {path: outcome for outcome, _, path in lines}
    assert found.keys() == paths.keys(), done.stdout[-2000:] + done.stderr[-2000:]
    return {paths[path]: outcome for path, outcome in found.items()}


@pytest.mark.parametrize("adapter", MODULES)
def test_each_known_deviation_is_there_and_its_script_fails(adapter: str, tmp_path: Path) -> None:
    python, pins = python_with(adapter), load_deviations(adapter)
    patterns = {pattern for pin in pins for pattern in pin.cases}
    cases = tuple(case.id for case in all_cases() if any(matches(pattern, case.id) for pattern in patterns))

    run = run_cases(adapter, python, cases)

    assert [f"{cell.case} of {cell.subject}: {cell.detail}" for cell in run.cells if cell.status == "changed"] == []
    assert unmatched(pins, run.cells) == []
    found = outcomes(adapter, python, run, "deviation", tmp_path)
    assert found
    assert {cell: outcome for cell, outcome in found.items() if outcome != "fails"} == {}


@pytest.mark.parametrize("adapter", MODULES)
def test_script_of_a_cell_that_passed_does_not_fail(adapter: str, tmp_path: Path) -> None:
    python = python_with(adapter)

    found = outcomes(adapter, python, run_cases(adapter, python, RIGHT), "pass", tmp_path)

    assert found
    assert {cell: outcome for cell, outcome in found.items() if outcome != "passes"} == {}


WRONG_CLIP = """
import numpy as np

def clip(grads, *, clip_norm, need_clip):
    return [None if g is None else np.asarray(g * 0.75, "float64") for g in grads], 1.0
"""

RIGHT_CLIP = """
import gradclip_spec

def clip(grads, *, clip_norm, need_clip):
    clipped, norm = gradclip_spec.clip_by_global_norm(grads, clip_norm, need_clip=need_clip)
    return list(clipped), norm
"""


class TestPlainFunction:
    """A function that is wrong in many ways, and a right one in its place."""

    @pytest.fixture
    def record(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        (tmp_path / "clip_module.py").write_text(WRONG_CLIP, encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
        path = tmp_path / "wrong.jsonl"
        arguments = ["check", "clip_module:clip", "--op", "clip_by_global_norm", "--dtype", "float32"]
        CliRunner().invoke(gradclip, [*arguments, "-o", str(path)])
        return path

    @pytest.mark.parametrize(
        "case",
        [
            "global-norm.scaled-above/three-four-five",
            "global-norm.identity-below/three-four-five",
            "global-norm.dtype-kept/clipped",
            "global-norm.returned-norm/above",
            "global-norm.returned-norm-nonfinite/nan",
            "global-norm.negative-threshold-refused/minus-one",
            "global-norm.infinity-not-silent/infinity-threshold-small",
            "global-norm.excluded-untouched/between",
            "global-norm.none-not-counted/between",
            "global-norm.zero-dimensional/values",
            "global-norm.many-tensors/hundred",
            "global-norm.large-tensor-accuracy/scattered",
            "global-norm.coefficient-underflow/far-apart",
            "global-norm.norm-beyond-range/twice-the-largest",
            "global-norm.twice-is-once/clipped",
            "global-norm.norm-bounded/clipped",
        ],
    )
    def test_script_fails_with_the_wrong_function_and_not_with_the_right_one(
        self, record: Path, tmp_path: Path, case: str
    ) -> None:
        output = tmp_path / "script.py"
        result = CliRunner().invoke(gradclip, ["repro", str(record), f"{case}/float32", "-o", str(output)])
        assert result.exit_code == 0, result.output

        wrong = subprocess.run([sys.executable, output], capture_output=True, text=True, check=False)
        (tmp_path / "clip_module.py").write_text(RIGHT_CLIP, encoding="utf-8")
        right = subprocess.run([sys.executable, output], capture_output=True, text=True, check=False)

        assert wrong.returncode == 1
        assert "AssertionError" in wrong.stderr
        assert case.split("/")[0] in wrong.stderr
        assert right.returncode == 0, right.stderr

    def test_script_needs_numpy_and_the_function_alone(self, record: Path) -> None:
        result = CliRunner().invoke(
            gradclip, ["repro", str(record), "global-norm.scaled-above/three-four-five/float32"]
        )

        assert result.exit_code == 0, result.output
        imports = [line for line in result.output.splitlines() if line.startswith(("import ", "from "))]
        assert imports == ["import numpy as np", "import clip_module"]

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["no-such-case"], "no cell of the case"),
            (["global-norm.scaled-above/three-four-five/float32", "--subject", "torch"], "clip_module:clip"),
            (["global-norm.error-if-nonfinite/nan/float32"], "does not declare"),
            (["global-norm.layout/strided/float32"], "lie in memory"),
            # It treats every order alike: the relation holds, and there is nothing to show.
            (["global-norm.tensor-order/clipped/float32"], "does not show the answers"),
        ],
    )
    def test_what_cannot_be_shown_is_said(self, record: Path, arguments: list[str], says: str) -> None:
        result = CliRunner().invoke(gradclip, ["repro", str(record), *arguments])

        assert result.exit_code == 2
        assert says in " ".join(result.output.split())


def test_of_a_long_clip_by_value_the_elements_that_the_record_shows_are_written_out() -> None:
    """Of all numbers of float16 the first are subnormal, and this function flushes them."""
    case = next(each for each in all_cases() if each.id == "value.bounds/every-number-min-and-max/float16")

    def script_of(function: Callable[..., Any]) -> str:
        adapter = PlainFunction(function, "clip_by_value", name="clip_module:clip")
        stream = io.StringIO()
        request = RunRequest("clip_module:clip", lambda: InProcess(adapter), Selection(cases=(case.id,)))
        run = run_adapter(request, stream)
        return script(run.header, run.cells[0])

    def flushes(grads: list[Any], *, min: float, max: float) -> list[Any]:
        return [np.clip(np.where(np.abs(grad) < 2.0**-14, grad * 0, grad), min, max) for grad in grads]

    def turns_the_last(grads: list[Any], *, min: float, max: float) -> list[Any]:
        return [np.concatenate([np.clip(grad[:-1], min, max), -grad[-1:]]) for grad in grads]

    assert "8.940696716308594e-07" in script_of(flushes)
    with pytest.raises(NoScript, match="too many to write out"):
        script_of(turns_the_last)
