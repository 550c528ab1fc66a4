"""Check functions on meshes: wrong ones are found and named, right ones are not blamed, mistakes get a line."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from mesh_functions import RIGHT, WITH_EPSILON, WRONG, reduce_nowhere, sum_addends_first
from runs import run_command

from gradclip_adapters.mesh import parse_mesh
from gradclip_adapters.mesh_function import MeshFunction
from gradclip_conformance import check_clipper
from gradclip_conformance.run.in_process import InProcess

#: In the last one, parallel groups add more than two numbers.
MESHES = ("shard=2,tensor=2", "replica=2,shard=2,tensor=2", "shard=4", "replica=2,shard=4")


def check(function: Any, mesh: str, **options: Any) -> Any:
    return check_clipper(function, op="clip_by_global_norm", mesh=parse_mesh(mesh), isolated=False, **options)


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", RIGHT)
def test_right_function_is_not_blamed(name: str, mesh: str) -> None:
    results = check(RIGHT[name], mesh, dtypes=["float32"])

    assert results.findings == [], str(results)
    assert sum(result["status"] == "pass" for result in results) > 10


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_function_is_found(name: str) -> None:
    function, cause = WRONG[name]
    results = check(function, "shard=2,tensor=2", dtypes=["float32", "float64"])

    assert cause in {finding["cause"] for finding in results.findings[:2]}, str(results)


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize(
    ("name", "mesh"),
    [
        ("count_excluded", "replica=2,shard=2"),
        ("average_coefficients", "replica=2,shard=2"),
        ("return_square", "replica=2,shard=2"),
        ("lose_nan", "replica=2,shard=2"),
        ("reduce_nothing", "replica=2,shard=2"),
        ("add_from_own_rank_on", "replica=2,shard=2"),
        ("add_from_own_rank_on", "shard=4"),
        ("add_from_own_rank_on", "replica=2,shard=4"),
    ],
)
def test_wrong_function_has_one_cause(name: str, mesh: str) -> None:
    function, cause = WRONG[name]
    results = check(function, mesh)

    assert [finding["cause"] for finding in results.findings] == [cause], str(results)


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("mesh", ["shard=2", "shard=2,tensor=2", "replica=2,shard=2,tensor=2"])
@pytest.mark.parametrize("cause", WITH_EPSILON)
def test_epsilon_of_each_rank_is_told_from_one_epsilon(cause: str, mesh: str) -> None:
    results = check(WITH_EPSILON[cause], mesh, dtypes=["float32", "float64"])

    # Zeros have another norm, too, which is returned.
    found = {finding["cause"]: sum(map(len, finding["cells"].values())) for finding in results.findings}
    assert max(found, key=found.__getitem__) == cause, str(results)
    assert not set(found) & (set(WITH_EPSILON) - {cause})


@pytest.mark.parametrize("mesh", MESHES)
def test_right_clip_of_partial_gradients_is_not_blamed(mesh: str) -> None:
    results = check(sum_addends_first, mesh, rule="*partial*", partial=True)

    assert results.findings == [], str(results)
    assert sum(result["status"] == "pass" for result in results) > 5


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", RIGHT)
def test_clip_that_takes_addends_for_parts_is_found(name: str, mesh: str) -> None:
    results = check(RIGHT[name], mesh, rule="*partial*", partial=True, dtypes=["float32"])

    assert [finding["cause"] for finding in results.findings] == ["addends-counted"], str(results)


def test_partial_gradients_are_asked_of_those_who_take_them_only() -> None:
    results = check(RIGHT["divide_by_copies"], "shard=4", rule="*partial*")

    assert {result["status"] for result in results} == {"unsupported"}
    with pytest.raises(ValueError, match="`partial=True` needs a mesh"):
        check_clipper(clip_value, op="clip_by_value", partial=True)


def clip_value(grads: Any, *, max: float, min: float | None = None, mesh: Any, placements: Any) -> Any:
    return [None if g is None else np.clip(g, -max if min is None else min, max) for g in grads]


def test_value_needs_no_collective() -> None:
    assert check_clipper(clip_value, op="clip_by_value", mesh={"shard": 2}, isolated=False).findings == []


@pytest.mark.parametrize("returns_norm", [True, False])
def test_probe_finds_whether_a_norm_is_returned(returns_norm: bool) -> None:
    def clip(grads: Any, *, clip_norm: float, mesh: Any, placements: Any) -> Any:
        clipped, norm = RIGHT["divide_by_copies"](grads, clip_norm=clip_norm, mesh=mesh, placements=placements)
        return (clipped, norm) if returns_norm else clipped

    (entry_point,) = InProcess(MeshFunction(clip, "clip_by_global_norm", {"shard": 2})).description.subjects

    assert ("returns_norm" in entry_point.features) == returns_norm


@pytest.mark.thorough(sample=0)
def test_function_in_a_process_of_its_own_and_from_the_shell(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_clips.py").write_text(
        "def clip(grads, *, clip_norm, mesh, placements):\n    return grads, 1.0\n", encoding="utf-8"
    )
    words = ["check", "own_clips.py:clip", "--op", "clip_by_global_norm", "--mesh", "replica=2,shard=2"]
    narrow = ["--rule", "*.shards-as-whole", "--dtype", "float32"]
    done = run_command(*words, *narrow, "-o", "own.jsonl")

    assert done.exit_code == 1, done.output
    case = re.findall(r"global-norm.shards-as-whole/\S+", done.output)[0]
    shown = run_command("show", case)
    assert shown.exit_code == 0, shown.output
    assert '"mesh": "replica=2,shard=2"' in shown.output
    written = run_command("repro", "own.jsonl", case, "-o", "own.py")
    assert written.exit_code == 0, written.output
    script = subprocess.run([sys.executable, "own.py"], capture_output=True, text=True, check=False)
    assert "AssertionError: expected:" in script.stderr


def keep(grads: Any, *, clip_norm: float) -> Any:
    return grads


@pytest.mark.parametrize(
    ("function", "mesh", "words"),
    [
        (RIGHT["gather"], {"replica": 3, "shard": 3}, "at most 8 ranks"),
        (RIGHT["gather"], {"replica": 0}, "a size is a whole number above 0"),
        (RIGHT["gather"], {}, "at least one axis"),
        (RIGHT["gather"], "shard=2", "'shard=2' is no mesh: give the size of each axis"),
        (RIGHT["gather"], 4, "4 is no mesh: give the size of each axis"),
        (keep, {"shard": 2}, "takes no parameter 'mesh'"),
        (RIGHT["gather"], None, "or check it on a mesh such as {'shard': 2} (--mesh shard=2)"),
    ],
    ids=["large", "zero", "empty", "text", "number", "unused", "missing"],
)
def test_mistaken_mesh_gets_a_line(function: Any, mesh: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=re.escape(words)):
        check_clipper(function, op="clip_by_global_norm", mesh=mesh)


@pytest.mark.thorough(sample=0)
def test_function_that_raises_on_all_ranks_fails_also_where_they_own_other_gradients() -> None:
    # The answers of its own process are checked.
    results = check_clipper(reduce_nowhere, "clip_by_global_norm", mesh={"replica": 2, "shard": 2}, isolated=True)

    assert "crash" not in {result["status"] for result in results}
    assert [finding["cause"] for finding in results.findings] == ["raises"]


def test_norm_that_is_no_number_is_found() -> None:
    def clip(grads: Any, *, clip_norm: float, mesh: Any, placements: Any) -> Any:
        clipped, _ = RIGHT["divide_by_copies"](grads, clip_norm=clip_norm, mesh=mesh, placements=placements)
        return clipped, np.array(["large"])

    results = check(clip, "shard=2", dtypes=["float32"])

    assert "pass" not in {result["status"] for result in results}, str(results)


def test_rounding_at_the_threshold_is_not_taken_for_lost_signs() -> None:
    def clip(grads: Any, *, clip_norm: float, mesh: Any, placements: Any) -> Any:
        clipped, norm = RIGHT["gather"](grads, clip_norm=clip_norm, mesh=mesh, placements=placements)
        return [np.nextafter(g, g.dtype.type(0)) if norm == clip_norm else g for g in clipped if g is not None], norm

    results = check(clip, "shard=2", rule="*threshold*")

    assert {finding["cause"] for finding in results.findings} == {"not-exact-below"}, str(results)
