"""Choose the fewest causes that explain the cells of an entry point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

from .model import VARYING, Explanation
from .symptoms import SYMPTOMS

__all__ = ["Options", "choose"]

#: A cause comes before a symptom that explains at most this many times as many cells. Squares that overflow explain 42
#: of 43 cells of zeros. In a function that never clips, a cause explains 118 of 181 cells by chance.
ALMOST = Fraction(10, 9)

#: What the explanations of several cells by one cause have in common.
Key = tuple[str, tuple[tuple[str, Any], ...]]


@dataclass
class Options:
    """The explanations of one cell: each cause whose model reproduces the answer. The most specific one comes first."""

    explanations: list[Explanation]
    #: Return whether the model of a cause predicts another wrong answer, although nothing in the call leaves the range.
    refutes: Callable[[Explanation], bool] = lambda _: False
    #: Whether the cell breaks a rule.
    counts: bool = True
    #: Whether a known failure names the cause, so that no other cell casts doubt on it.
    is_known: bool = False

    @property
    def keys(self) -> dict[Key, Explanation]:
        """The explanations by what they share with those of other cells."""
        found: dict[Key, Explanation] = {}
        for one in self.explanations:
            found.setdefault(make_key(one), one)
        return found


def make_key(one: Explanation) -> Key:
    """Return the cause of an explanation with the parameters that all cells of the cause share."""
    return one.cause, tuple(pair for pair in one.parameters if pair[0] not in VARYING)


def choose(cells: Sequence[Options], doubtful: Collection[str] = ()) -> list[Explanation | None]:
    """Return the explanation of each cell. The causes that explain most cells come first, as in a greedy set cover.

    A cause must explain more cells than those in which its model predicts another wrong answer. A doubtful cause must
    also explain more cells than nothing explains. If many answers are unexplained, the main defect is unknown, and a
    model that takes the rest of the function for right proves nothing. A cause that a known failure names stays.
    """
    every = [cell.keys for cell in cells]
    examples = {key: one for keys in every for key, one in keys.items()}
    times = Counter(key for keys in every for key in keys)
    for key, one in examples.items():
        against = (cell for cell, keys in zip(cells, every, strict=True) if key not in keys and cell.refutes(one))
        # Models take time, so do not ask more than needed.
        if sum(1 for _ in islice(against, times[key])) == times[key]:
            _drop(cells, every, key)
    lost = sum(not keys and cell.counts for cell, keys in zip(cells, every, strict=True))
    for key in examples:
        if key[0] in doubtful and times[key] <= lost:
            _drop(cells, every, key)
    return _cover(every)


def _drop(cells: Sequence[Options], every: Sequence[dict[Key, Explanation]], key: Key) -> None:
    for cell, keys in zip(cells, every, strict=True):
        if not cell.is_known:
            keys.pop(key, None)


def _cover(every: Sequence[dict[Key, Explanation]]) -> list[Explanation | None]:
    """Return the explanation of each cell, by few keys. Of two that explain as many cells, the more specific one.

    A symptom says less than a cause, and the cells of any cause with the same effect show it, too. So a cause comes
    first that explains almost as many cells.
    """
    found: list[Explanation | None] = [None] * len(every)
    while any(keys and one is None for keys, one in zip(every, found, strict=True)):
        times: Counter[Key] = Counter()
        ranks: Counter[Key] = Counter()
        for keys, one in zip(every, found, strict=True):
            if one is None:
                times.update(list(keys))
                ranks.update({key: rank for rank, key in enumerate(keys)})
        best = min(times, key=lambda key: (-times[key] * (1 if key[0] in SYMPTOMS else ALMOST), ranks[key], str(key)))
        found = [keys.get(best) if one is None else one for keys, one in zip(every, found, strict=True)]
    return found
