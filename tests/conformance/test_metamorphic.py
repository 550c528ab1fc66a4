"""Check how relations between calls are judged where no mutant shows it.

Each relation catches a mutant, and right functions keep it: `test_mutants.py` and `test_right_functions.py` check this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gradclip_conformance import check_clipper
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.themes import metamorphic
from gradclip_conformance.judge.relations import OF_ONE, RELATIONS, multiply_by_power_of_two

Grads = list[Any]


def compute_norm(grads: Sequence[Any]) -> float:
    """Return the norm of several arrays in float64."""
    return math.sqrt(math.fsum(float(x) ** 2 for grad in grads for x in np.ravel(grad).astype(np.float64)))


def test_other_roundings_for_other_magnitudes_are_quality() -> None:
    def clip(grads: Grads, *, clip_norm: float) -> Grads:
        factor = np.float32(clip_norm / compute_norm(grads))
        steps = np.float32(1.0) / factor if clip_norm > 4 else factor
        return [grad / steps if clip_norm > 4 else grad * steps for grad in grads]

    cells = check_clipper(
        clip, "clip_by_global_norm", rule="global-norm.power-of-two-scaling/clipped-up-by-four/*", dtypes=["float32"]
    )

    assert [cell["status"] for cell in cells] == ["quality"]


def test_every_relation_has_cases() -> None:
    used = {
        dict(case.expectation.parameters)["relation"]
        for case in list_all_cases()
        if case.expectation.name == "metamorphic"
    }

    assert used == {*RELATIONS, *OF_ONE}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_scaling_by_a_power_of_two_is_exact(dtype: str) -> None:
    before = metamorphic.make_scattered(9, dtype, 5).array
    assert before is not None

    assert multiply_by_power_of_two(multiply_by_power_of_two(before, 3), -3) == before
    assert multiply_by_power_of_two(None, 3) is None
