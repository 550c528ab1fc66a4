"""Check that the search finds failing inputs, shrinks them, repeats with the same seed and blames no right clipper."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings

from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases import regressions as found
from gradclip_conformance.cases.build import make_tensor
from gradclip_conformance.cases.model import Case, expect
from gradclip_conformance.cases.readable import show_input
from gradclip_conformance.cli import gradclip
from gradclip_conformance.oracle.formats import FORMATS, read_float64_values
from gradclip_conformance.oracle.predict import decode_gradients, predict
from gradclip_conformance.run import search as deep
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import run_cell
from gradclip_reports.records import read_runs

SCALED = Selection(rules=("global-norm.scaled-above",), dtypes=("float32",))


def clip_right(grads: list[Any], *, clip_norm: float, need_clip: list[bool]) -> list[Any]:
    """Clip by the formula in float64, with squares that stay in the range."""
    included = [np.ravel(grad).astype(np.float64) for grad, flag in zip(grads, need_clip, strict=True) if flag]
    joined = np.concatenate([np.zeros(1), *included])
    largest = float(np.max(np.abs(joined))) or 1.0
    norm = float(np.linalg.norm(joined / largest)) * largest
    factor = clip_norm / norm if norm > clip_norm else 1.0
    return [
        (grad * factor).astype(grad.dtype) if flag and factor != 1.0 else grad
        for grad, flag in zip(grads, need_clip, strict=True)
    ]


def clip_wrong_with_three(grads: list[Any], *, clip_norm: float, need_clip: list[bool]) -> list[Any]:
    """Return zeros for three gradients whose last one has several elements. Clip by the formula otherwise."""
    results = clip_right(grads, clip_norm=clip_norm, need_clip=need_clip)
    return [0 * grad for grad in results] if len(grads) == 3 and grads[2].size > 1 else results


@cache
def run_search(function: Any, selection: Selection, seed: int = 0) -> deep.Searched:
    """Search with a plain function. Several tests look at the same search."""
    connection = InProcess(PlainFunction(function, "clip_by_global_norm"))
    return deep.search(
        connection.description.subjects, selection, seed, lambda planned: run_cell(connection, planned, 10.0)
    )


def test_failing_input_is_found_and_shrunk() -> None:
    outcome = run_search(clip_wrong_with_three, SCALED)

    (case,) = outcome.failing
    assert outcome.cases == [case]
    assert case.id.startswith("global-norm.scaled-above/deep-")
    assert case.id.endswith("/float32")
    # The smallest failing input has the sizes 0, 0 and 2. The start of the search depends on a hash, so it may end at
    # the next larger input.
    sizes = [len(read_float64_values(g.array)) for g in case.gradients if g.array is not None]
    assert sizes in ([0, 0, 2], [0, 1, 2], [1, 0, 2])


def wipes(grads: list[Any], *, clip_norm: float) -> list[Any]:
    """Square in float32, so that the norm of large gradients is infinite even below the threshold."""
    with np.errstate(over="ignore"):
        norm = np.sqrt(sum((np.sum(grad * grad) for grad in grads), np.float32(0)))
    factor = np.float32(clip_norm / max(float(norm), clip_norm))
    return [grad * factor for grad in grads]


def test_search_below_the_threshold_reaches_the_ends_of_the_range() -> None:
    outcome = run_search(wipes, Selection(rules=("global-norm.identity-below",), dtypes=("float32",)))

    (case,) = outcome.failing
    assert (
        max(abs(read_float64_values(g.array)).max(initial=0) for g in case.gradients if g.array is not None) > 2.0**60
    )


@pytest.mark.exam(sample=0)
def test_same_seed_finds_the_same() -> None:
    again = run_search.__wrapped__(clip_wrong_with_three, SCALED)

    assert again.cases == run_search(clip_wrong_with_three, SCALED).cases


@pytest.mark.exam(sample=0)
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_right_function_is_not_blamed_and_its_worst_input_is_kept(dtype: str) -> None:
    outcome = run_search(clip_right, Selection(dtypes=(dtype,)))

    assert not outcome.failing
    # The function returns no norm, so the search keeps no input for the rule about the norm.
    assert {case.rule for case in outcome.cases} == {*deep.RULES["clip_by_global_norm"]} - {"global-norm.returned-norm"}
    assert outcome.tried >= deep.EXAMPLES


def test_unselected_rules_are_not_searched() -> None:
    assert run_search(clip_right, Selection(rules=("global-norm.zero-*",))).tried == 0


@pytest.mark.exam(sample=1)
@pytest.mark.parametrize("dtype", sorted(FORMATS))
@pytest.mark.parametrize("rule", ["value.bounds", "norm.scaled-above", "global-norm.excluded-not-counted"])
def test_inputs_stay_inside_the_range(rule: str, dtype: str) -> None:
    form = FORMATS[dtype]

    @settings(derandomize=True, max_examples=60, deadline=None, database=None)
    @given(deep.draw_inputs(rule, dtype))
    def check(case: Case) -> None:
        (threshold,) = case.options.values()
        assert threshold > 0
        assert all(expected is not None for expected in predict(case).gradients)
        for values in decode_gradients(case):
            assert values is not None
            for value in values.list_fractions():
                # Even the sum of 24 squares is in the normal range.
                assert value == 0 or form.smallest_normal <= value * value <= form.largest / 24

    check()


def test_found_case_is_read_from_its_file(tmp_path: Path) -> None:
    (case,) = run_search(clip_wrong_with_three, SCALED).failing
    path = tmp_path / "found.toml"
    path.write_text(found.write_toml(case), encoding="utf-8")

    assert list(found.make_cases(path)) == [case]


def test_excluded_gradient_is_read_from_its_file(tmp_path: Path) -> None:
    gradients = [make_tensor([1.0], "float16"), make_tensor([2.0, -0.0], "float16", need_clip=False)]
    case = found.make_case_of("global-norm.excluded-untouched", "kept", "float16", gradients, {"clip_norm": 0.5})
    path = tmp_path / "found.toml"
    path.write_text(found.write_toml(case), encoding="utf-8")

    assert list(found.make_cases(path)) == [case]
    assert case.expectation == expect("untouched", indices=(1,))
    assert found.make_find(case.id, show_input(case)) == case


def test_expectations_follow_from_the_rule() -> None:
    assert found.choose_expectation("value.bounds", []) == expect("values")
    assert found.choose_expectation("global-norm.returned-norm", []) == expect("returned-norm")
    assert found.choose_expectation("norm.twice-is-once", []) == expect("metamorphic", relation="twice")


def test_kept_cases_are_read() -> None:
    assert all(case.rule for case in found.make_cases())


@pytest.mark.exam(sample=0)
def test_command_line_searches_and_records(tmp_path: Path) -> None:
    path = tmp_path / "deep.jsonl"
    arguments = ["check", "numpy", "--deep", "--seed", "7", "--rule", "value.bounds", "--dtype", "float16"]
    result = CliRunner().invoke(gradclip, [*arguments, "-o", str(path)])

    assert result.exit_code == 0, result.output
    assert "searches that found a failing input: 0" in result.output
    (run,) = read_runs(path)
    assert run.header.seed == 7
    # The search keeps its worst case, which each of the two subjects runs.
    deep_cells = [cell for cell in run.cells if "/deep-" in cell.case]
    assert [cell.status for cell in deep_cells] == ["pass", "pass"]
    assert len({cell.case for cell in deep_cells}) == 1


def test_message_without_hypothesis_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    result = CliRunner().invoke(gradclip, ["check", "numpy", "--deep"])

    assert result.exit_code == 2
    assert "pip install hypothesis" in result.output
