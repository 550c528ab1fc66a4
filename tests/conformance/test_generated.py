"""Check that generated mutants are proven wrong, and caught."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from generated.drafts import Draft, draw_input
from generated.facts import Work
from generated.functions import Fault
from generated.judging import BATCHES, judge_batch, judge_mutant
from generated.mutants import draw_mutants, find_witness, read_name
from generated.operators import OPERATORS
from generated.proof import Answer, compute_norm, find_wrong, take_root
from generated.triggers import LEVELS, find_level


@pytest.mark.thorough(sample=0, first=12)
@pytest.mark.parametrize("seed", range(BATCHES))
def test_generated_mutants_are_judged(seed: int, record_property: Callable[[str, object], None]) -> None:
    found = judge_batch(seed)
    record_property("batch", json.dumps(found))

    assert not found["errors"]


def test_mutants_are_drawn_by_the_seed() -> None:
    drawn = [[mutant.name for mutant in itertools.islice(draw_mutants(seed), 300)] for seed in (0, 0, 1)]

    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 300


def test_mutant_is_rebuilt_from_its_name() -> None:
    for mutant in itertools.islice(draw_mutants(5), 200):
        assert read_name(mutant.name) == mutant


@pytest.mark.parametrize(
    "name",
    [
        "clip_by_value/copies/last-not-written/always",
        "clip_by_norm/in-place/excluded-zeroed/float64",
        "clip_by_global_norm/copies/norms-added/list-over-1",
    ],
)
def test_plain_mutant_is_proven_wrong_and_caught(name: str) -> None:
    mutant = read_name(name)
    witness, fired = find_witness(mutant)

    assert fired
    assert witness is not None
    assert (cell := judge_mutant(mutant)) is not None
    assert cell.status == "fail"


def test_trigger_that_never_holds_is_refused() -> None:
    mutant = read_name("clip_by_norm/copies/zeroed/over-512")
    never = replace(find_level("over-512"), name="never", holds=lambda facts: False)
    mutant = replace(mutant, fault=Fault(mutant.fault.operator, (never,)))

    assert find_witness(mutant) == (None, False)


def test_right_mutant_is_never_proven_wrong() -> None:
    # Below the threshold nothing is divided, so the coefficient does not matter.
    mutant = read_name("clip_by_norm/copies/coefficient-squared/below-threshold")

    assert find_witness(mutant) == (None, True)


def test_every_level_holds_for_the_input_that_it_drafts() -> None:
    rng = random.Random(0)
    for level in LEVELS:
        operation = level.operations[-1]
        operator = OPERATORS["excluded-zeroed" if level.name == "all-excluded" else "zeroed"]
        fault = Fault(operator, (level,))
        drawn = (draw_input(fault.make_draft(Draft(operation)), rng) for _ in range(12))
        assert any(index in fault.list_places(work) for work, index in drawn), level.name


def test_proof_is_exact() -> None:
    assert compute_norm([np.array([3.0, 4.0])], 2.0).value == 5
    assert take_root(Fraction(2), 2) ** 2 < 2
    work = Work("clip_by_norm", [np.array([3.0, 4.0])], [True], 5.0)
    same, other = np.array([3.0, 4.0]), np.array([3.0, np.nextafter(4.0, 0)])
    assert find_wrong(work, Answer([same], None, None, [same])) is None
    # At the threshold the result is the input, bit for bit.
    assert find_wrong(work, Answer([other], None, None, [same])) is not None
