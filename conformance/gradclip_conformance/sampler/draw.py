"""Draw rows: the levels of a call, from a seed and the number of the row.

The level of each axis depends only on SHA-256 of the seed, the number and the axis's name, and on integer arithmetic.
So every Python on every machine draws the same rows, and no row depends on how many others are drawn.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, count
from typing import TypeVar

from .axes import CROWDED, LONG, STACKED, list_axes
from .constraints import list_clashes

T = TypeVar("T")

#: The number of rows that each entry point gets unless the user says otherwise.
ROWS = 150

#: How many rows of 100 have a long tensor, a long list, or both: of the default rows, which must end soon, and of later
#: ones. A long list takes ten times as long as a long tensor.
KINDS = {(False, False): 66, (True, False): 28, (False, True): 3, (True, True): 3}
LATER_KINDS = {(False, False): 65, (True, False): 22, (False, True): 5, (True, True): 8}
#: Beyond the first rows, only one row of sixteen may have a costly level, so that a run of 100,000 rows ends in
#: minutes. With the first rows cut to 200, 2,000 rows find 6 % fewer of the generated wrong functions.
FIRST_ROWS, ROWS_PER_COSTLY = 2000, 16
COSTLY = (*LONG, *CROWDED, "threaded")
#: The costly levels of examples and units, each of which is judged as a gradient of its own.
COSTLY_STACKED = ("s513", "n10", "e17")


def draw_levels(operation: str, number: int, seed: int = 0) -> dict[str, str]:
    """Return the levels of a row, by the names of the axes in their order."""
    for attempt in count():
        name = f"{seed}/{operation}/{number}/{attempt}"
        levels = _try_levels(operation, name, _list_barred(operation, number, name))
        if levels is not None:
            return levels
    raise AssertionError


def _try_levels(operation: str, name: str, too_costly: Iterable[str]) -> dict[str, str] | None:
    """Return levels that do not clash, or None if an axis has no level that fits."""
    axes, clashes = list_axes(operation), list_clashes(operation)
    digests = {axis.name: hashlib.sha256(f"{name}/{axis.name}".encode()).digest() for axis in axes}
    chosen: dict[str, str] = {}
    barred = set(too_costly)
    # In a fixed order, a level that clashes with many others would be drawn too often or too seldom.
    for axis in sorted(axes, key=lambda axis: digests[axis.name][8:]):
        fitting = [level for level in axis.levels if level.word not in barred]
        if not fitting:
            return None
        draw = int.from_bytes(digests[axis.name][:8], "big")
        word = _choose([level.word for level in fitting], [level.weight for level in fitting], draw)
        chosen[axis.name] = word
        barred.update(clashes[word])
    return {axis.name: chosen[axis.name] for axis in axes}


def _list_barred(operation: str, number: int, name: str) -> Iterator[str]:
    """Yield the levels that a row does not get, because it is of another kind, or because they cost too much."""
    if number >= FIRST_ROWS and number % ROWS_PER_COSTLY:
        yield from (*COSTLY, *(COSTLY_STACKED if operation in STACKED else ()))
        return
    if operation in STACKED:
        return
    draw = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    kinds = KINDS if number < ROWS else LATER_KINDS
    is_long, is_crowded = _choose(list(kinds), list(kinds.values()), draw)
    for axis_name, words, wanted in (("size", LONG, is_long), ("number", CROWDED, is_crowded)):
        axis = next(axis for axis in list_axes(operation) if axis.name == axis_name)
        yield from (word for word in axis.list_words() if (word in words) != wanted)


def _choose(items: Sequence[T], weights: Sequence[int], draw: int) -> T:
    """Return an item. Each is chosen as often as its weight says."""
    place = bisect_right(list(accumulate(weights)), draw % sum(weights))
    return items[place]
