"""Check functions on torch in several processes: right ones are not blamed, wrong ones do not let the others wait."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from click.testing import CliRunner

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient
from gradclip_adapters.mesh_function import TorchFunction
from gradclip_conformance import check_clipper
from gradclip_conformance.cli import gradclip

pytestmark = pytest.mark.array_library("torch")

MESH = {"replica": 2, "shard": 2}


def check(name: str, dtypes: Sequence[str] = ("float32",), **options: Any) -> Any:
    import torch_mesh_functions

    function = getattr(torch_mesh_functions, name)
    return check_clipper(function, op="clip_by_global_norm", mesh=MESH, arrays="torch", dtypes=dtypes, **options)


def test_right_function_is_not_blamed() -> None:
    # The function returns a float of Python. The norm of float64 must not become a float32 on its way.
    results = check("reduce_sum", ["float32", "float64"])

    assert results.findings == [], str(results)
    assert results.isolated
    assert sum(result["status"] == "pass" for result in results) > 30


def test_clip_of_torch_is_blamed_for_what_is_wrong_without_a_mesh_only() -> None:
    results = check("clip_by_torch", formula="coefficient:1e-6")

    statuses = {result["case"].partition("/")[2].partition("@")[0]: result["status"] for result in results}
    failed = {case for case, status in statuses.items() if status == "fail"}
    # torch cannot take the largest element of an empty tensor. Three calls leave the range of float32. In gloo, the
    # maximum of a number and NaN is the number.
    wrong = {"norm-infinity-empty-part", "huge-beside-small", "huge-in-one-process", "tiny-in-one-process"}
    assert failed <= wrong | {"norm-infinity-nan-in-last-process"}, str(results)
    assert sum(status in ("pass", "documented") for status in statuses.values()) > 20
    assert statuses["owned"] == "unsupported"


@pytest.mark.parametrize("name", ["clip_by_reference", "sum_before"])
def test_right_clip_of_partial_gradients_is_not_blamed(name: str) -> None:
    # The second one calls torch's function, which adds an epsilon.
    results = check(name, rule="*partial*", partial=True, formula="coefficient:1e-6" if name == "sum_before" else None)

    statuses = {result["status"] for result in results}
    assert statuses <= {"pass", "documented", "unsupported"}, str(results)
    assert sum(result["status"] != "unsupported" for result in results) > 10


def test_clip_that_takes_addends_for_parts_is_found() -> None:
    results = check("reduce_sum", rule="*partial*", partial=True)

    assert [finding["cause"] for finding in results.findings] == ["addends-counted"], str(results)


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize(
    ("name", "rule", "cause"),
    [
        ("reduce_nothing", "*/split*", "ranks-not-reduced"),
        ("count_copies_again", "*/copied*", "copies-counted"),
        ("leave_early", "*empty-part*", "rank-absent"),
    ],
)
def test_wrong_function_is_found(name: str, rule: str, cause: str) -> None:
    results = check(name, rule=rule)

    assert cause in {finding["cause"] for finding in results.findings[:2]}, str(results)


@pytest.fixture(scope="module")
def answering() -> Iterator[TorchFunction]:
    """Yield a function that does what the threshold of the call says."""
    import torch_mesh_functions

    target = f"{Path(torch_mesh_functions.__file__)}:answer"
    yield (function := TorchFunction(torch_mesh_functions.answer, "clip_by_global_norm", MESH, target=target))
    function.stop()


def make_call(situation: str) -> Call:
    import torch_mesh_functions

    names = [function.__name__ for function in torch_mesh_functions.SITUATIONS]
    options = {"clip_norm": float(names.index(situation)), "mesh": "replica=2,shard=2"}
    return Call("x", (Gradient("g", Array.of(np.ones(3, np.float32)), placements={"shard": 0}),), options)


@pytest.mark.parametrize(
    ("situation", "words"),
    [
        ("stay_away", r'ranks 0, 1 and 3 in all_reduce\("sum"\) of float32 of shape \(2,\) at \w+.py:\d+; rank 2 ret'),
        (
            "use_other_order",
            r'ranks 0 and 1 returned; rank 2 in .*"sum"\) over shard .*; rank 3 in .*"max"\) over shard ',
        ),
        ("use_other_operation", r'rank 0 in all_reduce\("sum"\) .*; ranks 1 to 3 in all_reduce\("max"\) '),
        ("use_other_shape", r"of shape \(2,\) .* of shape \(3,\) "),
        ("use_other_dtype", "of float32 .* of float64 "),
        ("use_other_collective", "rank 0 in all_gather .*; ranks 1 to 3 in broadcast with root 0 of float32"),
        ("give_other_room", "rank 0 in all_gather of .* into 3 elements .*; ranks 1 to 3 in all_gather .* into 4 elem"),
        ("raise_alone", r"in barrier at .*; rank 1 raised ValueError \(ValueError: no gradient\)"),
        ("catch_everything", "rank 2 returned"),
        ("enter_again", "ranks 0, 1 and 3 in all_reduce.*; rank 2 returned"),
        ("wait_for_message", r"ranks 0 and 1 returned; rank 2 in recv from rank 1 of float32 of shape \(1,\) at "),
        ("make_group_alone", "ranks 0 and 1 in new_group of ranks 0 and 1 at .*; ranks 2 and 3 returned"),
    ],
)
def test_mismatch_is_told_at_once(answering: TorchFunction, situation: str, words: str) -> None:
    answering.call(make_call("use_every_collective"))
    start = time.monotonic()

    with pytest.raises(FrameworkRaised) as raised:
        answering.call(make_call(situation))

    # It takes 0.05 s, and a second more if a rank hides that its collective was given up. The machine may be busy.
    assert time.monotonic() - start < 4
    assert raised.value.kind == "CollectiveMismatch"
    assert re.search(words, raised.value.text)


def test_processes_are_kept_after_a_mismatch_and_end_when_told(answering: TorchFunction) -> None:
    reply = answering.call(make_call("use_every_collective"))
    pids = list(answering.pids)
    with pytest.raises(FrameworkRaised):
        answering.call(make_call("stay_away"))
    again = answering.call(make_call("use_every_collective"))

    assert reply.gradients == again.gradients == (Array.of(np.ones(3, np.float32)),)
    assert answering.pids == pids
    ranks = list(map(psutil.Process, pids))
    answering.stop()
    assert psutil.wait_procs(ranks, timeout=5)[1] == []


def test_function_from_the_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(
        "def clip(parameters, *, clip_norm):\n    return [p.grad for p in parameters], 1.0\n", encoding="utf-8"
    )
    words = ["check", "own.py:clip", "--op", "clip_by_global_norm", "--mesh", "shard=2", "--arrays", "torch"]
    done = CliRunner().invoke(gradclip, [*words, "--dtype", "float32", "--rule", "*/split*"])

    assert done.exit_code == 1, done.output
    assert "global-norm.shards-as-whole" in done.output


@pytest.mark.thorough(sample=0)
def test_tutorial_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "tutorial" / "trainer.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for file, text in re.findall(r"Save this as `([\w.]+)`[^`]*```python\n(.*?)```", page, re.DOTALL):
        (tmp_path / file).write_text(text, encoding="utf-8")
    runs = re.findall(r"```sh\n(gradclip [^\n]*)\n```\n.*?```text\n(.*?)```", page, re.DOTALL)

    assert len(runs) == 3
    for line, shown in runs:
        printed = " ".join(CliRunner().invoke(gradclip, line.split()[1:]).output.split())
        for part in shown.split("..."):
            assert " ".join(part.split()) in printed


def test_mistakes_get_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch_mesh_functions

    function = torch_mesh_functions.clip_by_torch
    with pytest.raises(ValueError, match="at most 8 ranks"):
        check_clipper(function, op="clip_by_global_norm", mesh={"shard": 9}, arrays="torch")
    with pytest.raises(ValueError, match="needs a mesh"):
        check_clipper(function, op="clip_by_global_norm", arrays="torch")
    with pytest.raises(ValueError, match="choose one of numpy, torch"):
        check_clipper(function, op="clip_by_global_norm", mesh=MESH, arrays="jax")
    with pytest.raises(ValueError, match="leave out `isolated=False`"):
        check_clipper(function, op="clip_by_global_norm", mesh=MESH, arrays="torch", isolated=False)
    with pytest.raises(ValueError, match="a lambda, or a function inside a function, cannot be imported"):
        check_clipper(lambda parameters, *, clip_norm: None, op="clip_by_global_norm", mesh=MESH, arrays="torch")
    with pytest.raises(TypeError, match="takes no parameter 'max'"):
        check_clipper(torch_mesh_functions.scale, op="clip_by_value", mesh=MESH, arrays="torch")
    done = CliRunner().invoke(gradclip, ["check", "own.py:clip", "--op", "clip_by_norm", "--arrays", "torch"])
    assert "--arrays torch needs --mesh" in done.output
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="torch is not installed"):
        check_clipper(function, op="clip_by_global_norm", mesh=MESH, arrays="torch")
