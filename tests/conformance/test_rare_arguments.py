"""Test that right functions pass the cases of rare arguments, and of several processes."""

from __future__ import annotations

import pytest
from mutants.abilities import InProcesses, TakesAxes, TakesTensors, WithAbilities
from mutants.steps import ByGlobalNorm, ByNorm, ByValue, ClipFunction

from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection, plan_cells
from gradclip_conformance.run.runner import run_cell


@pytest.mark.parametrize(
    ("right", "adapter", "rule"),
    [
        (ByValue, TakesTensors, "value.tensor-threshold"),
        (ByNorm, TakesTensors, "norm.tensor-threshold"),
        (ByGlobalNorm, TakesTensors, "global-norm.tensor-threshold"),
        (ByNorm, TakesAxes, "norm.norm-over-axes"),
        (ByValue, InProcesses, "value.shards-as-whole"),
        (ByNorm, InProcesses, "norm.shards-as-whole"),
        (ByGlobalNorm, InProcesses, "global-norm.shards-as-whole"),
    ],
)
def test_right_function_passes(right: type[ClipFunction], adapter: type[WithAbilities], rule: str) -> None:
    dtypes = ("float16", "float32", "float64")
    connection = InProcess(adapter(adapter.complete(right)(), right.operation, dtypes, None))
    planned = plan_cells(connection.description.subjects, list_all_cases(), Selection(rules=(rule,), dtypes=dtypes))

    assert len(planned) > 8
    assert {run_cell(connection, cell, 1.0).status for cell in planned} == {"pass"}
