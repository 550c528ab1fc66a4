"""Check a few examples of each target, and every example that ever failed. `run.py` checks many more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fuzzing.driver import check_example, run_turn
from fuzzing.target import NAMES, load_target

FOUND = sorted(Path(__file__).with_name("found").glob("*/*.json"))
EXAMPLES = 5


@pytest.mark.exam(sample=6)
@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_example_that_once_failed_passes(path: Path) -> None:
    """Check that an example that failed in the past passes now."""
    kept = json.loads(path.read_text(encoding="utf-8"))

    check_example(load_target(path.parent.name), kept["example"])


@pytest.mark.exam(sample=2)
@pytest.mark.parametrize("name", NAMES)
def test_few_examples_of_a_target_pass(name: str) -> None:
    """Check that a short turn with a fixed seed finds nothing."""
    checked, found = run_turn(name, seed=0, turn=0, examples=EXAMPLES)

    assert found is None, f"{found.what}\n{json.dumps(found.example)}"
    assert checked >= EXAMPLES
