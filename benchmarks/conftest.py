"""What all benchmarks share: how one is measured, and the names under which its result is found again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from workloads import WORKLOADS

#: Rounds of one measurement; the median of them counts.
ROUNDS = 15


@pytest.fixture(params=WORKLOADS)
def workload(request: pytest.FixtureRequest) -> str:
    """The name of a workload."""
    return str(request.param)


@pytest.fixture(params=[True, False], ids=["clipped", "unclipped"])
def clipped(request: pytest.FixtureRequest) -> bool:
    """Whether the threshold is below the norm."""
    return bool(request.param)


@pytest.fixture
def measure(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Time a function on fresh arguments in each round; `names` say what is compared with what."""

    def run(function: Callable[..., Any], fresh: Callable[[], tuple[Any, ...]], **names: Any) -> None:
        benchmark.extra_info.update({key: str(value) for key, value in names.items()})
        benchmark.pedantic(function, setup=lambda: (fresh(), {}), rounds=ROUNDS, warmup_rounds=2)

    return run
