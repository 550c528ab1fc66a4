"""Change everything that comes from outside by chance, and replay every example that ever failed.

GRADCLIP_EXAMPLES says how many examples of each target are drawn, and `--hypothesis-seed` from which seed. Hypothesis
shrinks a failing example and prints it. Move it to `tests/fuzz/found/TARGET/`, under a name that describes the failure.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from fuzzing.guards import limit_example
from fuzzing.target import NAMES, Target, load_target
from hypothesis import HealthCheck, given, settings

FOUND = sorted(Path(__file__).with_name("found").glob("*/*.json"))

#: Few by default, because some examples start a process.
EXAMPLES = int(os.environ.get("GRADCLIP_EXAMPLES", "5"))


def check_example(target: Target, drawn: Any) -> None:
    """Check one example within the limits of time and memory."""
    with limit_example():
        target.check(drawn)


@pytest.mark.thorough(sample=3)
@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_example_that_once_failed_passes(path: Path) -> None:
    kept = json.loads(path.read_text(encoding="utf-8"))

    check_example(load_target(path.parent.name), kept["example"])


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize("name", NAMES)
def test_no_example_fails(name: str) -> None:
    target = load_target(name)

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(target.examples)
    def check(drawn: Any) -> None:
        check_example(target, drawn)

    check()
