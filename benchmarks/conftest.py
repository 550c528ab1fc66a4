"""What all benchmarks share: the workloads, and how two things are compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
from workloads import WORKLOADS

#: Rounds of one measurement; the median of them counts.
ROUNDS = 21


@pytest.fixture(params=WORKLOADS)
def workload(request: pytest.FixtureRequest) -> str:
    """Return the name of a workload."""
    return str(request.param)


@pytest.fixture(params=[True, False], ids=["clipped", "unclipped"])
def clipped(request: pytest.FixtureRequest) -> bool:
    """Whether the threshold is below the norm."""
    return bool(request.param)


@pytest.fixture
def compare(benchmark: Any) -> Callable[..., None]:
    """Time the reference and a peer in turns, so that both meet the machine in the same moods.

    The times of the reference are those that pytest-benchmark keeps; the peer is timed while the next round is made
    ready. Beside them are kept its median, and the quartiles of the ratios of both in each round. `fresh` makes the
    arguments of each round new, `names` say what is compared.
    """

    def run(
        ours: Callable[[], Any],
        theirs: Callable[[], Any],
        fresh: Callable[[], None] = lambda: None,
        rounds: int = ROUNDS,
        **names: Any,
    ) -> None:
        seconds = []

        def make_ready() -> None:
            fresh()
            start = time.perf_counter()
            theirs()
            seconds.append(time.perf_counter() - start)
            fresh()

        benchmark.pedantic(ours, setup=make_ready, rounds=rounds, warmup_rounds=2)
        benchmark.extra_info.update({key: str(value) for key, value in names.items()})
        # The peer was timed in the rounds of warming up, too.
        seconds = seconds[-rounds:]
        ratios = [mine / peers for mine, peers in zip(benchmark.stats.stats.data, seconds, strict=True)]
        benchmark.extra_info["peer_median"] = statistics.median(seconds)
        benchmark.extra_info["ratio_quartiles"] = statistics.quantiles(ratios, n=4, method="inclusive")

    return run
