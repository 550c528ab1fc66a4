"""Check scripts that reproduce a cell: scripts of published failures fail with the framework, others do not.

A variable such as GRADCLIP_PYTHON_TORCH names a Python that has the framework. Without it, this Python is used if
it has the framework. A framework named in GRADCLIP_REQUIRE must be there; its absence is an error.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import gzip
import itertools
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from frameworks import ADAPTERS, BACKENDS, MODULES, find_python
from runs import run_command, run_rules

import gradclip_spec
from gradclip_adapters.arrays import THRESHOLD_KINDS, lay_out
from gradclip_adapters.contract import EntryPoint
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.build import make_tensor
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.literals import write_array
from gradclip_conformance.cases.model import Case
from gradclip_conformance.judge.judging import choose_expectation
from gradclip_conformance.judge.model import Script
from gradclip_conformance.judge.script_lines import assert_equal, predict_values
from gradclip_conformance.oracle.predict import predict
from gradclip_conformance.repro import direct, source
from gradclip_conformance.repro.script import NoScript, write_script
from gradclip_conformance.run.host_process import HostProcess, build_host_command
from gradclip_conformance.sampler.rows import list_all_rows
from gradclip_reports.records import Cell, Run, read_runs, write_run

DRIVER = Path(__file__).with_name("run_scripts.py")
PUBLISHED = Path(__file__).parents[2] / "reports" / "published"

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


def read_published_of_this_version(adapter: str, python: str) -> Run:
    """Return the published record. Skip the test if another version of the framework is installed."""
    run = read_published(adapter)
    host = HostProcess([*build_host_command(python, None), adapter])
    host.close()
    there, here = run.header.framework["version"], host.description.version
    if here != there:
        pytest.skip(f"the published record is of {adapter} {there}, and here is {here}")
    return run


def choose_one_of_each(cells: Iterable[Cell]) -> list[Cell]:
    """Return the first cell for each entry point, rule and behaviour."""
    found: dict[tuple[str, str, str | None], Cell] = {}
    for cell in cells:
        found.setdefault((cell.subject, cell.rule, cell.behaviour), cell)
    return list(found.values())


def run_scripts(
    adapter: str, python: str, scripts: Mapping[tuple[str, str], str], folder: Path
) -> dict[tuple[str, str], tuple[str, str]]:
    """Run scripts, and return how each ended and what it printed, by case and entry point."""
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


def check(function: Callable[..., Any], *rules: str, dtype: str = "float32", op: str = "clip_by_global_norm") -> Run:
    """Return the run of a function, which scripts import from `clip_module`."""
    adapter = PlainFunction(function, op, dtypes=(dtype,), name="clip_module:clip")
    with np.errstate(all="ignore"):
        return run_rules(adapter, *rules, name="clip_module:clip")


def run_script(text: str, function: Callable[..., Any]) -> str:
    """Run a script that imports a function from `clip_module`. Return its error, or an empty text if it passes."""
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setitem(sys.modules, "clip_module", SimpleNamespace(clip=function))
        try:
            exec(compile(text, "script.py", "exec"), {"__name__": "__main__"})
        except Exception as error:  # noqa: BLE001 - the script may raise whatever the function raises
            return f"{type(error).__name__}: {error}"
    return ""


def clip_wrong(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
    return [None if g is None else np.asarray(g * 0.75, "float64") for g in grads], 1.0


def clip_right(grads: Any, *, clip_norm: float, need_clip: Any = None) -> Any:
    clipped, norm = gradclip_spec.clip_by_global_norm(grads, clip_norm, need_clip=need_clip)
    return list(clipped), norm


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


@pytest.fixture(scope="module")
def checked() -> Run:
    """Return the run of the wrong function. The cells of two more rules have no script."""
    without = ("global-norm.repeated-tensor", "global-norm.error-if-nonfinite")
    return check(clip_wrong, *(f"{case}/*" for case in CASES), *without)


@pytest.mark.parametrize(
    "case",
    # Exact arithmetic on a million elements takes seconds.
    [pytest.param(case, marks=[pytest.mark.thorough(sample=0)] if "large-tensor" in case else []) for case in CASES],
)
def test_script_fails_only_with_the_wrong_function(checked: Run, case: str) -> None:
    (cell,) = (cell for cell in checked.cells if cell.case == f"{case}/float32")
    script = write_script(checked.header, cell)

    said = run_script(script, clip_wrong)

    assert said.startswith("AssertionError")
    assert EXPECTED.search(said)
    assert OBSERVED.search(said)
    assert run_script(script, clip_right) == ""
    imports = {line.split()[1] for line in script.splitlines() if line.startswith(("import ", "from "))}
    assert imports <= {"math", "numpy", "clip_module"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no-such-case"], "no case, rule or finding"),
        (["global-norm.scaled-above/three-four-five/float32", "--entry-point", "torch"], "clip_module:clip"),
        (["global-norm.error-if-nonfinite/nan/float32"], "does not declare"),
        (["global-norm.repeated-tensor/same-object/float32"], "is not defined"),
    ],
)
def test_cell_without_a_script_is_reported(checked: Run, arguments: list[str], says: str, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    with record.open("w", encoding="utf-8") as stream:
        write_run(stream, checked)

    result = run_command("repro", record, *arguments)

    assert result.exit_code == 2
    assert says in " ".join(result.output.split())


def count_calls(grads: Any, *, clip_norm: float) -> Any:
    """Divide by the number of calls so far."""
    factor = 1.0 / next(CALLS)
    return [grad * factor for grad in grads]


#: What wrong functions keep from one call to the next.
CALLS, KEPT = itertools.count(1), dict[Any, Any]()


def keep_norm(grads: Any, *, clip_norm: float) -> Any:
    """Keep the norm where other threads change it."""
    KEPT["norm"] = float(np.sqrt(sum((grad.astype("float64") ** 2).sum() for grad in grads)))
    # The sleep lets another thread run, however busy the machine is.
    time.sleep(0.001)
    return [(grad * min(1.0, clip_norm / KEPT["norm"])).astype(grad.dtype) for grad in grads]


def reuse_buffers(grads: Any, *, clip_norm: float) -> Any:
    """Return the results of each call in the same arrays."""
    results = gradclip_spec.clip_by_global_norm(grads, clip_norm)[0]
    for place, result in enumerate(results):
        KEPT.setdefault((place, result.shape), np.empty_like(result))[...] = result
    return [KEPT[place, result.shape] for place, result in enumerate(results)]


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize(
    ("wrong", "case"),
    [
        (count_calls, "global-norm.repeatable/twice/float32"),
        (keep_norm, "global-norm.threads-agree/eight/float32"),
        (reuse_buffers, "global-norm.results-survive/clipped/float32"),
    ],
)
def test_script_covers_repetition_and_threads(wrong: Callable[..., Any], case: str) -> None:
    run = check(wrong, case)
    script = write_script(run.header, run.cells[0])

    assert run_script(script, wrong).startswith("AssertionError")
    assert run_script(script, lambda grads, *, clip_norm: clip_right(grads, clip_norm=clip_norm)[0]) == ""


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
def test_script_accepts_flushed_numbers_only_of_an_entry_point_that_flushes(feature: str, passes: bool) -> None:
    (case,) = (each for each in list_all_cases() if each.id == "value.bounds/subnormal-max-only/float32")
    entry_point = EntryPoint("f", "clip_by_value", ("float32",), (feature,))
    lines = assert_equal(predict_values(case, entry_point))
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


def make_off(ulps: int) -> Callable[..., Any]:
    """Return a clip whose results are off by so many ulp."""

    def clip(grads: Any, *, clip_norm: float) -> Any:
        norm = float(np.sqrt(sum((grad.astype("float64") ** 2).sum() for grad in grads)))
        results = [(grad * (clip_norm / norm)).astype(grad.dtype) for grad in grads]
        return [
            result + grad.dtype.type(ulps) * np.spacing(result) for grad, result in zip(grads, results, strict=True)
        ]

    return clip


@pytest.mark.parametrize(
    "name",
    [
        "scaled-above/three-four-five/float16",
        "scaled-above/uneven/float32",
        "intermediate-range/elements-far-apart/float64",
    ],
)
def test_script_is_as_strict_as_the_judge(name: str) -> None:
    (case,) = (each for each in list_all_cases() if each.id == f"global-norm.{name}")
    allowed = math.floor(predict(case).errors[0].clip_bound)
    run = check(make_off(2 * allowed), case.id, dtype=case.dtype)
    script = write_script(run.header, run.cells[0])

    # Both the expected value and the result may be rounded, so one ulp more may pass. Three more must not.
    ulps = (-allowed - 3, -allowed + 1, allowed - 1, allowed + 3)
    ends = [run_script(script, make_off(number)).partition(":")[0] for number in ulps]

    assert ends == ["AssertionError", "", "", "AssertionError"]


@pytest.mark.parametrize(("before", "passes"), [("pass", True), ("gradients[0][...] = 0", False)])
def test_script_accepts_a_refusal_only_if_it_keeps_the_inputs(before: str, passes: bool) -> None:
    (case,) = (each for each in list_all_cases() if each.id == "value.inputs-not-mutated/threshold-zero/float32")
    entry_point = EntryPoint("f", case.operation, ("float32",), ("functional",))
    calls = direct.write_calls("math:clip", case, entry_point, compiles=False)
    refuses = replace(calls.call, clip=f"{before}\nraise ValueError")

    script = Script(case, entry_point, refuses, raised=False, refused_rightly=True)
    lines = choose_expectation(case).write_script(script)

    with contextlib.nullcontext() if passes else pytest.raises(AssertionError):
        exec(f"{calls.top}\n{lines}", {"np": np})


@pytest.mark.parametrize(("compiled", "passes"), [("raise ValueError", True), ("results = gradients", False)])
def test_script_of_two_calls_that_raise_fails_if_one_returns(compiled: str, passes: bool) -> None:
    (case,) = (each for each in list_all_cases() if each.id == "value.compiled-agrees/clipped/float32")
    entry_point = EntryPoint("f", case.operation, ("float32",), ("functional", "compiles"))
    calls = direct.write_calls("math:clip", case, entry_point, compiles=False)
    alone, second = (replace(calls.call, clip=clip) for clip in ("raise TypeError", compiled))

    script = Script(case, entry_point, alone, raised=True, compiled=second, refused_rightly=True)
    lines = choose_expectation(case).write_script(script)

    with contextlib.nullcontext() if passes else pytest.raises(AssertionError, match="expected: an error"):
        exec(f"{calls.top}\n{lines}", {"np": np})


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("status", ["pass", "fail"])
def test_script_accepts_a_refusal_only_if_the_judge_did(status: str) -> None:
    run = read_published("paddle-fluid")
    case, entry = "value.inputs-not-mutated/threshold-zero/float32", "[set_gradient_clip, static]"
    (cell,) = (cell for cell in run.cells if cell.case == case and cell.entry_point.endswith(entry))
    assert (cell.status, cell.behaviour) == ("pass", "raises:AssertionError")

    script = write_script(run.header, replace(cell, status=status))

    assert ("except Exception" in script) == (status == "pass")


@pytest.mark.parametrize("case", ["value.nan-stays/equal-bounds/float32", "value.infinite-bounds/max-only/float32"])
def test_script_accepts_nan_and_infinities(case: str) -> None:
    def clip_to_nine(grads: Any, *, max: float, min: float) -> Any:
        return [9 * np.ones_like(grad) for grad in grads]

    def clip(grads: Any, *, max: float, min: float) -> Any:
        return [np.clip(grad, min, max) for grad in grads]

    run = check(clip_to_nine, case, op="clip_by_value")
    script = write_script(run.header, run.cells[0])

    assert run_script(script, clip_to_nine).startswith("AssertionError")
    assert run_script(script, clip) == ""


def clip_nothing_by_default(grads: Any, *, max: float, min: float | None = None, need_clip: Any = None) -> Any:
    flags = need_clip or [False] * len(grads)
    pairs = zip(grads, flags, strict=True)
    return [grad.clip(-max if min is None else min, max) if flag else grad for grad, flag in pairs]


@pytest.mark.thorough(sample=0)
def test_script_leaves_out_the_same_arguments_as_the_suite() -> None:
    run = check(clip_nothing_by_default, "value.bounds", op="clip_by_value")
    cell = next(cell for cell in run.cells if cell.status == "fail")

    assert run_script(write_script(run.header, cell), clip_nothing_by_default).startswith("AssertionError")


def test_script_of_a_long_clip_by_value_holds_the_shown_elements() -> None:
    """Check that the script shows the elements that the record shows. Here, these are flushed subnormal numbers."""
    case = next(each for each in list_all_cases() if each.id == "value.bounds/every-number-min-and-max/float16")

    def write_script_of(function: Callable[..., Any]) -> str:
        run = check(function, case.id, dtype="float16", op="clip_by_value")
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


# TensorFlow.js runs in Node, so a script calls its adapter.
@pytest.mark.parametrize("adapter", sorted({*MODULES} - {"tensorflow-js"}))
def test_functions_of_each_entry_point_are_whole(adapter: str) -> None:
    """Check that the lines for each entry point in a record have all the names that they use."""
    with gzip.open(find_published(adapter), "rt", encoding="utf-8") as file:
        header = json.loads(next(file))
    for entry_point in header["subjects"]:
        if "distributed" in entry_point["features"]:
            continue
        found = source.find_source(adapter, entry_point["name"])
        assert found is not None, entry_point["name"]
        function = found.find_function(entry_point["name"])
        compiled = found.find_function(entry_point["name"], compiled=True) or function
        assert function is not None
        assert compiled is not None
        assert ("compiles" in entry_point["features"]) == (compiled is not function)
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


def test_row_that_breaks_another_rule_has_a_script() -> None:
    def keep(grads: Any, *, clip_norm: float) -> Any:
        return list(grads)

    run = check(keep, "global-norm.combinations/s9_n1_*")

    broken = [cell for cell in run.cells if cell.breaks == "global-norm.scaled-above"]

    scripts = []
    for cell in broken:
        with contextlib.suppress(NoScript):
            scripts.append(write_script(run.header, cell))
    assert scripts
    assert all('"""global-norm.scaled-above (must): ' in script for script in scripts), scripts[0]


def test_script_of_a_followed_call_stacks_units_once() -> None:
    rows = (row for row in list_all_rows() if row.operation == "clip_unitwise" and "followed" in row.options)
    plain = (row for row in rows if {one.layout for one in row.gradients} == {"contiguous"})
    row = next(row for row in plain if len({one.group for one in row.gradients}) < len(row.gradients))
    entry_point = EntryPoint("timm.utils.adaptive_clip_grad", row.operation, ("float32",), ("in_place",))

    calls = direct.write_calls("timm", row.make(), entry_point, compiles=False)

    # The function is called with the gradients of the row, and then with others.
    assert calls.call.clip.count("adaptive_clip_grad,") == 2


def test_units_of_results_may_be_none() -> None:
    case = next(case for case in list_all_cases() if case.id == "unitwise.none-stays-none/between/float32")
    entry_point = EntryPoint("optax.adaptive_grad_clip[eager]", case.operation, ("float32",), ("units_last",))
    calls = direct.write_calls("optax", case, entry_point, compiles=False)
    line = calls.call.results.splitlines()[-1]
    scope: dict[str, Any] = {"np": np, "results": [np.ones(2), None, np.array([[1.0, 2.0]])]}

    exec(line, scope)

    assert [None if unit is None else unit.tolist() for unit in scope["results"]] == [[1.0, 1.0], None, [1.0], [2.0]]


def test_script_of_a_clip_by_units_passes_the_parameters_of_an_empty_list() -> None:
    case = next(case for case in list_all_cases() if case.id == "unitwise.empty-list/nothing/float32")
    entry_point = EntryPoint("optax.adaptive_grad_clip[eager]", case.operation, ("float32",), ("units_last",))

    calls = direct.write_calls("optax", case, entry_point, compiles=False)

    assert "parameters=[]" in calls.call.clip
