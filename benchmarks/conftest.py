"""Give all benchmarks their workloads, and the timer that compares the reference with a peer."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
from workloads import WORKLOADS

#: Rounds of one measurement; the result is their median.
ROUNDS = 21


@pytest.fixture(params=WORKLOADS)
def workload(request: pytest.FixtureRequest) -> str:
    """Return the name of a workload."""
    return str(request.param)


@pytest.fixture(params=[True, False], ids=["clipped", "unclipped"])
def clipped(request: pytest.FixtureRequest) -> bool:
    """Return whether the threshold is below the norm."""
    return bool(request.param)


@pytest.fixture
def compare(benchmark: Any) -> Callable[..., None]:
    """Time the reference and a peer in turns, so that both suffer the same disturbances of the machine.

    pytest-benchmark keeps the times of the reference. The peer is timed while the next round is set up. Its median is
    kept, too, and so are the quartiles of the ratio of both in each round. `fresh` makes new arguments for each round,
    and `names` describe the comparison.
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
        # The peer was timed in the warm-up rounds, too.
        seconds = seconds[-rounds:]
        ratios = [mine / peers for mine, peers in zip(benchmark.stats.stats.data, seconds, strict=True)]
        benchmark.extra_info["peer_median"] = statistics.median(seconds)
        benchmark.extra_info["ratio_quartiles"] = statistics.quantiles(ratios, n=4, method="inclusive")

    return run
