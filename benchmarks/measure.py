"""How the reference and a peer are compared: in turns, so that both meet the machine in the same moods."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Comparison", "Measure"]

#: Rounds of one comparison, at the least and at the most; the median of them counts.
LEAST, MOST = 5, 31


@dataclass(frozen=True)
class Comparison:
    """The reference and a peer on one workload; times are in seconds."""

    peer: str
    workload: str
    dtype: str
    mode: str
    ours: float
    #: The time of the peer; where there is none, 0, and `ratio` is our time.
    theirs: float
    #: The median of the ratios of our time to the peer's in each round, and the range that holds the middle half.
    ratio: float
    least: float
    most: float
    rounds: int


@dataclass
class Measure:
    """A list of comparisons to be filled, and how long each may take."""

    seconds: float = 1.5
    quick: bool = False
    found: list[Comparison] = field(default_factory=list)

    def compare(
        self,
        ours: Callable[[], Any],
        theirs: Callable[[], Any],
        fresh: Callable[[], None] = lambda: None,
        rounds: int = MOST,
        **names: str,
    ) -> None:
        """Time both in turns; `fresh` makes their arguments new before each call, `names` say what is compared."""
        start = time.perf_counter()
        for function in (ours, theirs):
            # What is imported, compiled and cached by a first call is not of the others.
            fresh()
            function()
        took = time.perf_counter() - start
        rounds = 1 if self.quick else min(rounds, max(LEAST, int(self.seconds / took)))
        times: list[list[float]] = [[], []]
        for turn in range(rounds):
            # Whoever comes second may find warm caches: they take turns in that, too.
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

    def record(self, measure: Callable[[], float], rounds: int = LEAST, **names: str) -> None:
        """Note the median of a number of seconds that has no peer."""
        seconds = [measure() for _ in range(1 if self.quick else rounds)]
        least, median, most = statistics.quantiles(seconds * 2, n=4, method="inclusive")
        self.found.append(
            Comparison(**names, ours=median, theirs=0.0, ratio=median, least=least, most=most, rounds=len(seconds))
        )
