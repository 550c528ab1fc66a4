"""Test that right functions with abilities that a signature does not show pass the rules about these abilities."""

from __future__ import annotations

import pytest
from mutants import WRONG
from mutants.abilities import PullsBack, WithAbilities
from mutants.steps import EVERY

from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection, plan_cells
from gradclip_conformance.run.runner import run_cell

#: Each ability, and the rules that need it: those for which a mutant has it.
ABLE = {
    f"{wrong.rule}-{wrong.adapter.__name__}": (wrong.adapter, wrong.rule)
    for wrong in WRONG
    if wrong.adapter is not PlainFunction
}
RIGHT = {base.short: base for base in EVERY}
DTYPES = ("float16", "float32", "float64")


def list_statuses(adapter: type[WithAbilities], rule: str, **members: object) -> list[str]:
    """Return the statuses of all cases of a rule for a right function, with some members changed."""
    right = adapter.complete(RIGHT[rule.partition(".")[0]])
    function = type("Changed", (right,), members)()
    connection = InProcess(adapter(function, right.operation, DTYPES, None))
    selection = Selection(rules=(rule,), dtypes=DTYPES)
    planned = plan_cells(connection.description.subjects, list_all_cases(), selection)
    return [run_cell(connection, cell, 1.0).status for cell in planned if cell.missing is None]


@pytest.mark.parametrize("name", ABLE)
def test_right_function_passes(name: str) -> None:
    adapter, rule = ABLE[name]
    statuses = list_statuses(adapter, rule)

    assert set(statuses) == {"pass"}


@pytest.mark.parametrize("operation", ["value", "norm", "global-norm"])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_each_derivative_at_a_kink_is_right(operation: str, share: float) -> None:
    assert set(list_statuses(PullsBack, f"{operation}.derivative", share=share)) == {"pass"}
