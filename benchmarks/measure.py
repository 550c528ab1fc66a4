"""Compare the reference with a peer. The two run in turns, so that changes of the machine's speed affect both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

#: A comparison takes at least and at most this many rounds. Its result is the median of the rounds.
LEAST, MOST = 5, 31


@dataclass(frozen=True)
class Comparison:
    """The reference and a peer on one workload. Times are in seconds."""

    peer: str
    workload: str
    dtype: str
    mode: str
    ours: float
    #: The time of the peer. If there is no peer, it is 0, and `ratio` is our time.
    theirs: float
    #: The ratio of a round is our time over the peer's. These are the median of the ratios and the range of their
    #: middle half.
    ratio: float
    least: float
    most: float
    rounds: int


@dataclass
class Measure:
    """The comparisons that were made so far, and how long each may take."""

    seconds: float = 1.5
    quick: bool = False
    found: list[Comparison] = field(default_factory=list)

    def compare(
        self,
        ours: Callable[[], Any],
        theirs: Callable[[], Any],
        fresh: Callable[[], None] = lambda: None,
        **names: str,
    ) -> None:
        """Time both functions in turns. `fresh` makes new arguments before each call. `names` say what is compared."""
        start = time.perf_counter()
        for function in (ours, theirs):
            # A first call imports, compiles and caches. Do not time it.
            fresh()
            function()
        took = time.perf_counter() - start
        rounds = 1 if self.quick else min(MOST, max(LEAST, int(self.seconds / took)))
        times: list[list[float]] = [[], []]
        for turn in range(rounds):
            # The function that runs second may find warm caches, so swap the order in each round.
            for index in (0, 1) if turn % 2 else (1, 0):
                fresh()
                start = time.perf_counter()
                (ours, theirs)[index]()
                times[index].append(time.perf_counter() - start)
        ratios = [mine / peers for mine, peers in zip(*times, strict=True)]
        least, ratio, most = statistics.quantiles(ratios * 2, n=4, method="inclusive")
        medians = [statistics.median(each) for each in times]
        self.found.append(
            Comparison(**names, ours=medians[0], theirs=medians[1], ratio=ratio, least=least, most=most, rounds=rounds)
        )

    def record(self, measure: Callable[[], float], **names: str) -> None:
        """Record the median of some times, without a peer."""
        seconds = [measure() for _ in range(1 if self.quick else LEAST)]
        least, median, most = statistics.quantiles(seconds * 2, n=4, method="inclusive")
        self.found.append(
            Comparison(**names, ours=median, theirs=0.0, ratio=median, least=least, most=most, rounds=len(seconds))
        )
