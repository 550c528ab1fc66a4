"""Check that `--deep` finds failing rows, and shrinks them to the levels that the failure needs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from mutants.steps import ByGlobalNorm
from runs import make_adapter, run_command

from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import run_cell
from gradclip_conformance.run.shrink import Searched, search_rows
from gradclip_conformance.sampler.axes import list_axes
from gradclip_conformance.sampler.rows import RowCase
from gradclip_reports.records import read_runs

ROWS = 300


def zeroes_what_follows_an_excluded_one(grads: list[Any], *, clip_norm: float, need_clip: list[bool]) -> list[Any]:
    """Clip right, but return zeros for the rest of a list that begins with an excluded gradient and holds a None."""
    results: list[Any] = ByGlobalNorm()(grads, clip_norm=clip_norm, need_clip=need_clip)
    if not grads or need_clip[0] or all(grad is not None for grad in grads):
        return results
    return [results[0], *(None if result is None else 0 * result for result in results[1:])]


def search(function: Any, rows: int = ROWS) -> Searched:
    connection = InProcess(make_adapter(function))
    selection = Selection(rules=("global-norm.combinations/*",))
    return search_rows(
        connection.description.subjects, selection, rows, 0, lambda planned: run_cell(connection, planned, 10.0)
    )


@pytest.mark.thorough(sample=0)
def test_failing_row_is_shrunk_to_the_levels_that_matter() -> None:
    searched = search(zeroes_what_follows_an_excluded_one)

    assert searched.failing
    ordinary = {axis.name: axis.levels[0].word for axis in list_axes("global-norm")}
    others = []
    for found in searched.failing:
        assert isinstance(found.case, RowCase)
        levels = found.case.levels
        assert levels["excluded"] != "all-in"
        assert levels["none"] != "all-there"
        others.append({name for name, word in levels.items() if word != ordinary[name]} - {"excluded", "none"})
    # The number of gradients depends on all levels. So a row may fail in a way that no row with one simpler level has.
    assert min(others, key=len) <= {"size", "number", "place", "relation"}


@pytest.mark.thorough(sample=0)
def test_right_function_has_no_failing_row() -> None:
    searched = search(ByGlobalNorm(), 100)

    assert searched.failing == []
    assert searched.asked > 50


@pytest.mark.thorough(sample=0)
def test_command_line_searches_and_records_the_shrunk_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "import numpy as np\n\n\ndef clip(grads, *, max):\n"
        "    return [g if g is None else np.clip(g, -max if g.size <= 4 else None, max) for g in grads]\n"
    )
    (tmp_path / "half_clip.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    arguments = ["check", "half_clip:clip", "--op", "clip_by_value", "--deep", "--rows", "20", "--seed", "7"]

    result = run_command(*arguments, "--rule", "value.combinations/*", "-o", "deep.jsonl")

    assert result.exit_code == 1, result.output
    assert re.search(r"different failures: [1-9]", result.output), result.output
    (run,) = read_runs(tmp_path / "deep.jsonl")
    assert run.header.seed == 7
    found = re.search(r"--case (value\.combinations/s\d+_n\d\S*)", result.output)
    assert found, result.output
    assert found[1] in [cell.case for cell in run.cells if cell.status == "fail"]
