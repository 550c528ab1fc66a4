"""Check scripts that reproduce a cell: scripts of published deviations fail with the framework, others do not.

A variable such as GRADCLIP_PYTHON_TORCH names a Python that has the framework. Without it, this Python is used if
it has the framework. A framework named in GRADCLIP_REQUIRE must be there; its absence is an error.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import gzip
import io
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from frameworks import ADAPTERS, BACKENDS, MODULES, find_python

from gradclip_adapters.arrays import THRESHOLD_KINDS, lay_out
from gradclip_adapters.contract import EntryPoint
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.build import make_tensor
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.literals import write_array
from gradclip_conformance.cases.model import Case
from gradclip_conformance.cli import gradclip
from gradclip_conformance.judge.judging import choose_expectation
from gradclip_conformance.judge.model import Script
from gradclip_conformance.judge.script_lines import assert_equal, predict_values
from gradclip_conformance.oracle.predict import predict
from gradclip_conformance.repro import direct, source
from gradclip_conformance.repro.script import NoScript, write_script
from gradclip_conformance.run.host_process import HostProcess, build_host_command
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import RunRequest, run_adapter
from gradclip_reports.records import Cell, Run, read_runs

DRIVER = Path(__file__).with_name("run_scripts.py")
PUBLISHED = Path(__file__).parents[2] / "reports" / "published"

#: The part of a case's name that only rows of the sampler have: the numbers of elements and of gradients.
ROW = re.compile(r"/s\d+_n\d+")

#: Scripts of cells that pass under these rules must not fail. Each kind of check has at least one rule here.
PASSED = (
    "all-excluded",
    "bounds",
    "compiled-agrees",
    "dtype-kept",
    "each-tensor-alone",
    "error-if-nonfinite-atomic",
    "identity-below",
    "inputs-not-mutated",
    "layout",
    "nan-not-silent",
    "none-stays-none",
    "repeatable",
    "returned-norm",
    "scaled-above",
    "zero-dimensional",
)

#: The words of a script's own message, and the words of NumPy's assertions in old and new versions.
EXPECTED, OBSERVED = re.compile("expected: |DESIRED: | y: "), re.compile("observed: |ACTUAL: | x: ")


def find_published(adapter: str) -> Path:
    """Return the published record. Skip the test of a framework that was added after the last release."""
    path = PUBLISHED / f"{adapter}.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"the next release publishes the first record of {adapter}")
    return path


def read_published(adapter: str) -> Run:
    (run,) = read_runs(find_published(adapter))
    return run


def connect(adapter: str, python: str) -> HostProcess:
    return HostProcess([*build_host_command(python, None), adapter])


def read_published_of_this_version(adapter: str, python: str) -> Run:
    """Return the published record. Skip the test if another version of the framework is installed."""
    run = read_published(adapter)
    host = connect(adapter, python)
    host.close()
    there, here = run.header.framework["version"], host.description.version
    if here != there:
        pytest.skip(f"the published record is of {adapter} {there}, and here is {here}")
    return run


def choose_one_of_each(cells: Iterable[Cell]) -> list[Cell]:
    """Return the first cell for each subject, rule and behaviour."""
    found: dict[tuple[str, str, str | None], Cell] = {}
    for cell in cells:
        found.setdefault((cell.subject, cell.rule, cell.behaviour), cell)
    return list(found.values())


def run_scripts(
    adapter: str, python: str, scripts: Mapping[tuple[str, str], str], folder: Path
) -> dict[tuple[str, str], tuple[str, str]]:
    """Run scripts, and return how each ended and what it printed, by case and subject."""
    paths = {str(folder / f"{number}.py"): cell for number, cell in enumerate(scripts)}
    for path, cell in paths.items():
        Path(path).write_text(scripts[cell], encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if adapter in BACKENDS:
        environment["KERAS_BACKEND"] = BACKENDS[adapter]
    done = subprocess.run(
        [python, DRIVER, MODULES[adapter]],
        input="\n".join(paths),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        # Thousands of scripts may run, on a machine that is busy.
        timeout=7200,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"path"')]
    assert {line["path"] for line in lines} == paths.keys(), done.stdout[-2000:] + done.stderr[-2000:]
    return {paths[line["path"]]: (line["outcome"], line["said"]) for line in lines}


def expect_ending(cell: Cell) -> str:
    """Return how the script of a cell must end. It raises what the framework raised, or it fails."""
    raised = isinstance(cell.observed, Mapping) and "raised" in cell.observed
    return f"raises {str(cell.behaviour).partition(':')[2]}" if raised else "fails"


@pytest.mark.timeout(7200)
@pytest.mark.thorough(sample=len(ADAPTERS))
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_script_of_each_published_failure_fails(adapter: str, tmp_path: Path) -> None:
    python = find_python(adapter)
    run = read_published_of_this_version(adapter, python)
    cells = {(cell.case, cell.subject): cell for cell in run.cells if cell.status in ("known", "fail")}
    scripts = {}
    for key, cell in cells.items():
        # Some cases have no script.
        with contextlib.suppress(NoScript):
            scripts[key] = write_script(run.header, cell)

    found = run_scripts(adapter, python, scripts, tmp_path)

    assert found
    others = {cell: outcome for cell, (outcome, _) in found.items() if outcome != expect_ending(cells[cell])}
    assert others == {}
    silent = [cell for cell, (_, said) in found.items() if not EXPECTED.search(said)]
    silent += [cell for cell, (end, said) in found.items() if end == "fails" and not OBSERVED.search(said)]
    assert silent == []


@pytest.mark.thorough(sample=len(ADAPTERS))
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_script_of_a_passed_cell_succeeds(adapter: str, tmp_path: Path) -> None:
    python = find_python(adapter)
    run = read_published_of_this_version(adapter, python)
    passed = [cell for cell in run.cells if cell.status == "pass" and cell.dtype == "float32"]
    chosen = choose_one_of_each(cell for cell in passed if cell.rule.partition(".")[2] in PASSED)
    scripts, reasons = {}, []
    for cell in chosen:
        try:
            scripts[cell.case, cell.subject] = write_script(run.header, cell)
        except NoScript as reason:
            reasons.append(str(reason))
    # A script cannot take the sum of several examples apart.
    assert [each for each in reasons if "several examples" not in each] == []

    found = run_scripts(adapter, python, scripts, tmp_path)

    assert found
    assert {cell: outcome for cell, outcome in found.items() if outcome[0] != "passes"} == {}


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


CASES = [
    "global-norm.scaled-above/three-four-five",
    "global-norm.identity-below/three-four-five",
    "global-norm.dtype-kept/clipped",
    "global-norm.returned-norm/above",
    "global-norm.returned-norm-nonfinite/nan",
    "global-norm.negative-threshold-refused/minus-one",
    "global-norm.infinity-not-silent/infinity-threshold-small",
    "global-norm.excluded-untouched/between",
    "global-norm.flag-kinds/numpy",
    "global-norm.none-not-counted/between",
    "global-norm.zero-dimensional/values",
    "global-norm.many-tensors/hundred",
    "global-norm.large-tensor-accuracy/scattered",
    "global-norm.coefficient-underflow/far-apart",
    "global-norm.norm-beyond-range/twice-the-largest",
    "global-norm.twice-is-once/clipped",
    "global-norm.norm-bounded/clipped",
]
# The rules of these cases, and two rules whose cells have no script.
RULES = sorted(
    {case.split("/")[0] for case in CASES} | {"global-norm.repeated-tensor", "global-norm.error-if-nonfinite"}
)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the record of the wrong function. One run serves all tests of the class below."""
    folder = tmp_path_factory.mktemp("checked")
    (folder / "clip_module.py").write_text(WRONG_CLIP, encoding="utf-8")
    arguments = ["check", "clip_module:clip", "--op", "clip_by_global_norm", "--dtype", "float32"]
    arguments += [f"--rule={rule}" for rule in RULES]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
        CliRunner().invoke(gradclip, [*arguments, "-o", str(folder / "wrong.jsonl")])
    return (folder / "wrong.jsonl").read_text(encoding="utf-8")


class TestPlainFunction:
    """Check scripts with a function that is wrong in many ways, and with a right one in its place."""

    @pytest.fixture
    def record(self, checked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        (tmp_path / "clip_module.py").write_text(WRONG_CLIP, encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
        path = tmp_path / "wrong.jsonl"
        path.write_text(checked, encoding="utf-8")
        return path

    @pytest.mark.thorough(sample=0)
    @pytest.mark.parametrize("case", CASES)
    def test_script_fails_only_with_the_wrong_function(self, record: Path, tmp_path: Path, case: str) -> None:
        output = tmp_path / "script.py"
        result = CliRunner().invoke(gradclip, ["repro", str(record), f"{case}/float32", "-o", str(output)])
        assert result.exit_code == 0, result.output

        wrong = subprocess.run([sys.executable, output], capture_output=True, text=True, check=False)
        (tmp_path / "clip_module.py").write_text(RIGHT_CLIP, encoding="utf-8")
        right = subprocess.run([sys.executable, output], capture_output=True, text=True, check=False)

        assert wrong.returncode == 1
        assert "AssertionError" in wrong.stderr
        assert EXPECTED.search(wrong.stderr)
        assert OBSERVED.search(wrong.stderr)
        assert right.returncode == 0, right.stderr

    def test_script_imports_only_numpy_and_the_function(self, record: Path) -> None:
        result = CliRunner().invoke(
            gradclip, ["repro", str(record), "global-norm.scaled-above/three-four-five/float32"]
        )

        assert result.exit_code == 0, result.output
        imports = [line for line in result.output.splitlines() if line.startswith(("import ", "from "))]
        assert imports == ["import numpy as np", "import clip_module"]

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["no-such-case"], "no case, rule or finding"),
            (["global-norm.scaled-above/three-four-five/float32", "--subject", "torch"], "clip_module:clip"),
            (["global-norm.error-if-nonfinite/nan/float32"], "does not declare"),
            (["global-norm.repeated-tensor/same-object/float32"], "is not defined"),
        ],
    )
    def test_cell_without_a_script_is_reported(self, record: Path, arguments: list[str], says: str) -> None:
        result = CliRunner().invoke(gradclip, ["repro", str(record), *arguments])

        assert result.exit_code == 2
        assert says in " ".join(result.output.split())


COUNTS_ITS_CALLS = """
import itertools

calls = itertools.count(1)

def clip(grads, *, clip_norm):
    factor = 1.0 / next(calls)
    return [grad * factor for grad in grads]
"""

KEEPS_THE_NORM = """
import time

import numpy as np

kept = {}

def clip(grads, *, clip_norm):
    kept["norm"] = float(np.sqrt(sum((grad.astype("float64") ** 2).sum() for grad in grads)))
    # The sleep lets another thread run, however busy the machine is.
    time.sleep(0.001)
    return [grad * min(1.0, clip_norm / kept["norm"]) for grad in grads]
"""

WALKS_THE_BUFFER = """
import numpy as np

def clip(grads, *, clip_norm):
    buffers = [np.asarray(grad if grad.base is None else grad.base, "float64") for grad in grads]
    norm = float(np.sqrt(sum((buffer ** 2).sum() for buffer in buffers)))
    return [grad * min(1.0, clip_norm / norm) for grad in grads]
"""

LOOKS_BACKWARDS = """
import numpy as np

def clip(grads, *, clip_norm):
    flat = [(np.flip(grad) if min(grad.strides) < 0 else grad) for grad in grads]
    norm = float(np.sqrt(sum((np.asarray(grad, "float64") ** 2).sum() for grad in flat)))
    return [(grad * min(1.0, clip_norm / norm)).astype(grad.dtype) for grad in flat]
"""

STARTS_TOO_EARLY = """
import numpy as np

def clip(grads, *, clip_norm):
    norm = float(np.sqrt(sum((np.asarray(grad, "float64") ** 2).sum() for grad in grads)))
    bases = [(grad if grad.base is None else grad.base)[tuple(map(slice, grad.shape))] for grad in grads]
    return [(grad * min(1.0, clip_norm / norm)).astype(grad.dtype) for grad in bases]
"""

REUSES_ITS_BUFFERS = """
import gradclip_spec
import numpy as np

buffers = {}

def clip(grads, *, clip_norm):
    results = gradclip_spec.clip_by_global_norm(grads, clip_norm)[0]
    for place, result in enumerate(results):
        buffers.setdefault((place, result.shape), np.empty_like(result))[...] = result
    return [buffers[place, result.shape] for place, result in enumerate(results)]
"""

RIGHT_IN_ALL = """
import gradclip_spec

def clip(grads, *, clip_norm):
    return list(gradclip_spec.clip_by_global_norm(grads, clip_norm)[0])
"""


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize(
    ("wrong", "case"),
    [
        (COUNTS_ITS_CALLS, "global-norm.repeatable/twice/float32"),
        (KEEPS_THE_NORM, "global-norm.threads-agree/eight/float32"),
        (WALKS_THE_BUFFER, "global-norm.layout/strided/float64"),
        (LOOKS_BACKWARDS, "global-norm.layout/reversed/float64"),
        (STARTS_TOO_EARLY, "global-norm.layout/sliced/float64"),
        (REUSES_ITS_BUFFERS, "global-norm.results-survive/clipped/float32"),
    ],
)
def test_script_covers_repetition_threads_and_layouts(
    wrong: str, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, output = tmp_path / "clip_module.py", tmp_path / "script.py"
    module.write_text(wrong, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    record = tmp_path / "wrong.jsonl"
    arguments = ["check", "clip_module:clip", "--op", "clip_by_global_norm", "--rule", case]
    CliRunner().invoke(gradclip, [*arguments, "-o", str(record)])
    result = CliRunner().invoke(gradclip, ["repro", str(record), case, "-o", str(output)])
    assert result.exit_code == 0, result.output

    fails = subprocess.run([sys.executable, output], capture_output=True, text=True, check=False)
    module.write_text(RIGHT_IN_ALL, encoding="utf-8")
    passes = subprocess.run([sys.executable, output], capture_output=True, text=True, check=False)

    assert fails.returncode == 1
    assert "AssertionError" in fails.stderr
    assert passes.returncode == 0, passes.stderr


@pytest.mark.parametrize("kind", THRESHOLD_KINDS)
def test_script_writes_a_threshold_of_each_kind(kind: str) -> None:
    written = eval(direct.THRESHOLDS[kind].format("1.0"), {"np": np})
    passed = THRESHOLD_KINDS[kind](1.0)

    assert type(written) is type(passed)
    assert getattr(written, "dtype", None) == getattr(passed, "dtype", None)
    assert np.array_equal(written, passed)


def make_gradients(case: Case) -> dict[str, Any]:
    """Run the lines of a script that make the gradients, and return its names."""
    calls = direct.write_calls("math:clip", case, EntryPoint("f", case.operation, ("float32",)), compiles=False)
    written: dict[str, Any] = {}
    exec(f"{calls.top}\n{calls.call.gradients}", written)
    return written


@pytest.mark.parametrize("shape", [(), (1,), (6,), (2, 3)], ids=str)
@pytest.mark.parametrize("layout", ["strided", "transposed", "sliced", "reversed"])
def test_script_lays_out_a_gradient_as_the_suite_does(layout: str, shape: tuple[int, ...]) -> None:
    values = np.arange(1.0, 1.0 + math.prod(shape), dtype="float32").reshape(shape)
    gradient = make_tensor(values.ravel().tolist(), "float32", shape, layout=layout)
    (case,) = (each for each in list_all_cases() if each.id == "global-norm.layout/strided/float32")

    written = make_gradients(replace(case, gradients=(gradient,)))

    laid_out = lay_out(values, layout)
    np.testing.assert_array_equal(written["gradients"][0], laid_out, strict=True)
    assert written["gradients"][0].strides == laid_out.strides


def test_script_passes_the_same_tensor_twice() -> None:
    (case,) = (each for each in list_all_cases() if each.id == "global-norm.repeated-tensor/same-object/float32")

    first, second = make_gradients(case)["gradients"]

    assert first is second


@pytest.mark.parametrize(("feature", "passes"), [("flushes_subnormals", True), ("strided", False)])
def test_script_accepts_flushed_numbers_only_of_a_subject_that_flushes(feature: str, passes: bool) -> None:
    (case,) = (each for each in list_all_cases() if each.id == "value.bounds/subnormal-max-only/float32")
    subject = EntryPoint("f", "clip_by_value", ("float32",), (feature,))
    lines = assert_equal(predict_values(case, subject, predict(case)))
    flushed = np.zeros(case.gradients[0].array.shape, "float32")

    def accepts(result: np.ndarray[Any, Any]) -> bool:
        try:
            exec(lines, {"np": np, "results": [result]})
        except AssertionError:
            return False
        return True

    assert accepts(flushed) == passes
    assert not accepts(flushed + np.finfo("float32").tiny)
    assert not accepts(flushed[:-1])


IS_OFF = """
import os

import numpy as np

def clip(grads, *, clip_norm):
    norm = float(np.sqrt(sum((grad.astype("float64") ** 2).sum() for grad in grads)))
    results = [(grad * (clip_norm / norm)).astype(grad.dtype) for grad in grads]
    return [result + int(os.environ["ULPS"]) * np.spacing(result) for result in results]
"""


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize(
    "name",
    [
        "scaled-above/three-four-five/float16",
        "scaled-above/uneven/float32",
        "intermediate-range/elements-far-apart/float64",
    ],
)
def test_script_is_as_strict_as_the_judge(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, output, record = tmp_path / "clip_module.py", tmp_path / "script.py", tmp_path / "off.jsonl"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    (case,) = (each for each in list_all_cases() if each.id == f"global-norm.{name}")
    allowed = math.floor(predict(case).errors[0].clip_bound)
    module.write_text(IS_OFF, encoding="utf-8")
    monkeypatch.setenv("ULPS", str(2 * allowed))
    arguments = ["check", "clip_module:clip", "--op", "clip_by_global_norm", "--rule", case.id]
    CliRunner().invoke(gradclip, [*arguments, "-o", str(record)])
    result = CliRunner().invoke(gradclip, ["repro", str(record), case.id, "-o", str(output)])
    assert result.exit_code == 0, result.output

    ends = []
    # Both the expected value and the result may be rounded, so one ulp more may pass. Three more must not.
    for ulps in (-allowed - 3, -allowed + 1, allowed - 1, allowed + 3):
        # A module written again within the same second could be read from its old bytecode.
        monkeypatch.setenv("ULPS", str(ulps))
        done = subprocess.run([sys.executable, "-B", output], capture_output=True, text=True, check=False)
        ends.append((done.returncode, "AssertionError" in done.stderr))

    assert ends == [(1, True), (0, False), (0, False), (1, True)]


@pytest.mark.parametrize(("before", "passes"), [("pass", True), ("gradients[0][...] = 0", False)])
def test_script_accepts_a_refusal_only_if_it_keeps_the_inputs(before: str, passes: bool) -> None:
    (case,) = (each for each in list_all_cases() if each.id == "value.inputs-not-mutated/threshold-zero/float32")
    subject = EntryPoint("f", case.operation, ("float32",), ("functional",))
    calls = direct.write_calls("math:clip", case, subject, compiles=False)
    refuses = replace(calls.call, clip=f"{before}\nraise ValueError")

    lines = choose_expectation(case).write_script(Script(case, subject, refuses, raised=False, refused_rightly=True))

    with contextlib.nullcontext() if passes else pytest.raises(AssertionError):
        exec(f"{calls.top}\n{lines}", {"np": np})


@pytest.mark.parametrize("status", ["pass", "fail"])
def test_script_accepts_a_refusal_only_if_the_judge_did(status: str) -> None:
    run = read_published("paddle-fluid")
    case, entry = "value.inputs-not-mutated/threshold-zero/float32", "[set_gradient_clip, static]"
    (cell,) = (cell for cell in run.cells if cell.case == case and cell.subject.endswith(entry))
    assert (cell.status, cell.behaviour) == ("pass", "raises:AssertionError")

    script = write_script(run.header, replace(cell, status=status))

    assert ("except Exception" in script) == (status == "pass")


NOTHING_BY_DEFAULT = """
def clip(grads, *, max, min=None, need_clip=None):
    flags = need_clip or [False] * len(grads)
    return [grad.clip(-max if min is None else min, max) if flag else grad for grad, flag in zip(grads, flags)]
"""


def test_script_leaves_out_the_same_arguments_as_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, output = tmp_path / "record.jsonl", tmp_path / "script.py"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    (tmp_path / "nothing_by_default.py").write_text(NOTHING_BY_DEFAULT, encoding="utf-8")
    arguments = ["check", "nothing_by_default:clip", "--op", "clip_by_value", "--rule", "value.bounds"]
    CliRunner().invoke(gradclip, [*arguments, "--dtype", "float32", "-o", str(record)])
    case = next(cell.case for run in read_runs(record) for cell in run.cells if cell.status == "fail")

    result = CliRunner().invoke(gradclip, ["repro", str(record), case, "-o", str(output)])
    done = subprocess.run([sys.executable, "-B", output], capture_output=True, text=True, check=False)

    assert result.exit_code == 0, result.output
    assert "AssertionError" in done.stderr


def test_script_of_a_long_clip_by_value_holds_the_shown_elements() -> None:
    """Check that the script shows the elements that the record shows. Here, these are flushed subnormal numbers."""
    case = next(each for each in list_all_cases() if each.id == "value.bounds/every-number-min-and-max/float16")

    def write_script_of(function: Callable[..., Any]) -> str:
        adapter = PlainFunction(function, "clip_by_value", name="clip_module:clip")
        stream = io.StringIO()
        request = RunRequest("clip_module:clip", lambda: InProcess(adapter), Selection(cases=(case.id,)))
        run = run_adapter(request, stream)
        return write_script(run.header, run.cells[0])

    def flushes(grads: list[Any], *, min: float, max: float) -> list[Any]:
        return [np.clip(np.where(np.abs(grad) < 2.0**-14, grad * 0, grad), min, max) for grad in grads]

    def turns_the_last(grads: list[Any], *, min: float, max: float) -> list[Any]:
        return [np.concatenate([np.clip(grad[:-1], min, max), -grad[-1:]]) for grad in grads]

    assert "8.940696716308594e-07" in write_script_of(flushes)
    with pytest.raises(NoScript, match="too many to write out"):
        write_script_of(turns_the_last)


@pytest.mark.parametrize("shape", [(130,), (13, 10), (2, 5, 13)])
@pytest.mark.parametrize(
    ("values", "written"),
    [
        (np.full(130, 0.1), "np.tile"),
        (np.resize([1.0, -2.0, 5.0], 130), "np.resize"),
        (np.pad([-3.0, math.inf], 64), "np.bincount"),
        (np.where(np.arange(130) % 29 == 7, -0.0, 0.0), "np.resize"),
        (np.where(np.isin(np.arange(130), (3, 64, 120)), -0.0, 0.0), "np.frombuffer"),
        (np.arange(130) / 1024, '"<f2"'),
        (np.append(np.arange(129) * 2.0**-100, math.nan), '"<f4"'),
        (1 / np.arange(1, 131), '"<f8"'),
    ],
)
def test_long_array_is_written_in_a_short_way(
    values: np.ndarray[Any, Any], written: str, shape: tuple[int, ...]
) -> None:
    given = values.reshape(shape)

    source = write_array(given)

    found = np.array(eval(source, {"np": np, "inf": math.inf, "nan": math.nan}))
    assert written in source
    assert found.shape == shape
    assert found.dtype == given.dtype
    np.testing.assert_array_equal(found, given)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(given))


def test_array_without_a_pattern_is_too_long() -> None:
    with pytest.raises(NoScript, match="513 elements"):
        write_array(1 / np.arange(1, 514))


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("adapter", MODULES)
def test_each_layout_that_was_checked_has_a_script(adapter: str) -> None:
    run = read_published(adapter)
    cells = [cell for cell in run.cells if cell.rule.endswith(".layout") and cell.status != "unsupported"]

    missing = []
    for cell in cells:
        try:
            write_script(run.header, cell)
        except NoScript as problem:
            missing.append((cell.case, str(problem)))

    assert missing == []


# TensorFlow.js runs in Node, so a script calls its adapter.
@pytest.mark.parametrize("adapter", sorted({*MODULES} - {"tensorflow-js"}))
def test_functions_of_each_entry_point_are_whole(adapter: str) -> None:
    """Check that the lines for each entry point in a record have all the names that they use."""
    with gzip.open(find_published(adapter), "rt", encoding="utf-8") as file:
        header = json.loads(next(file))
    for subject in header["subjects"]:
        if "distributed" in subject["features"]:
            continue
        found = source.find_source(adapter, subject["name"])
        assert found is not None, subject["name"]
        function = found.find_function(subject["name"])
        compiled = found.find_function(subject["name"], compiled=True) or function
        assert function is not None
        assert compiled is not None
        assert ("compiles" in subject["features"]) == (compiled is not function)
        names = {"make", function.name, compiled.name, *function.names, *compiled.names}
        text = f"{found.write(names)}\n{function.write_call('[]', [])}\n{compiled.write_call('[]', [])}"
        assert list_unknown_names(text) == set()


def list_unknown_names(text: str) -> set[str]:
    """Return the names that a text uses and neither defines nor imports."""
    nodes = [*ast.walk(ast.parse(text))]
    known = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    known |= {one.name for one in nodes if isinstance(one, (ast.FunctionDef, ast.ClassDef))}
    known |= {one.arg for one in nodes if isinstance(one, ast.arg)}
    known |= {(one.asname or one.name).partition(".")[0] for one in nodes if isinstance(one, ast.alias)}
    return {one.id for one in nodes if isinstance(one, ast.Name)} - known - set(dir(builtins))


def test_script_passes_a_single_parameter_without_a_list() -> None:
    run = read_published("accelerate")
    (cell,) = (one for one in run.cells if one.case == "global-norm.single-tensor/vector/float32")

    assert "clip_norm=3.0, form=lambda parameters: parameters[0])" in write_script(run.header, cell)


def return_all(grads: list[Any], *, clip_norm: float) -> list[Any]:
    """Clip nothing."""
    return list(grads)


def test_row_that_breaks_another_rule_has_a_script() -> None:
    adapter = PlainFunction(return_all, "clip_by_global_norm", dtypes=("float32",))
    selection = Selection(rules=("global-norm.combinations/s9_n1_*",))
    run = run_adapter(RunRequest("clips.py:clip", lambda: InProcess(adapter), selection), io.StringIO())

    broken = [cell for cell in run.cells if cell.breaks == "global-norm.scaled-above"]

    scripts = []
    for cell in broken:
        with contextlib.suppress(NoScript):
            scripts.append(write_script(run.header, cell))
    assert scripts
    assert all('"""global-norm.scaled-above (must): ' in script for script in scripts), scripts[0]
