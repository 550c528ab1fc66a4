"""Check that each mutant is caught by its rule, and that each rule catches a mutant."""

from __future__ import annotations

from collections import Counter

import pytest
from confusion import connect, run_mutant
from mutants import WRONG, Wrong

from gradclip_adapters import arrays
from gradclip_spec import rules


@pytest.mark.thorough(sample=40)
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_mutant_is_caught_by_its_rule(wrong: Wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    # A call interrupts another call and must end within PATIENCE. No mutant holds a lock, so it always ends; a
    # longer PATIENCE lets it end in time even on a busy machine.
    monkeypatch.setattr(arrays, "PATIENCE", 60.0)
    cells = run_mutant(connect(wrong), wrong, (wrong.rule,), (wrong.rule,))

    statuses = Counter(cell.status for cell in cells)
    assert statuses[wrong.caught_as] > 0, f"{wrong.name}. Its rule gave {dict(statuses)}."
    assert statuses["error"] == 0, [cell.detail for cell in cells if cell.status == "error"]


def test_every_rule_catches_a_mutant() -> None:
    caught = {wrong.rule for wrong in WRONG}
    # The suite records unspecified behaviour and never judges it.
    judged = {rule.id for rule in rules.load() if rule.level != "unspecified"}

    assert caught == judged, f"rules that catch nothing: {sorted(judged - caught)}; unknown: {sorted(caught - judged)}"


def test_each_mutant_has_its_own_name() -> None:
    names = [wrong.name for wrong in WRONG]

    assert len(names) == len(set(names))
