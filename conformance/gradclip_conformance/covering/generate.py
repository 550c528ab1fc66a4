"""Generate the rows of a covering design with a deterministic greedy algorithm.

Each row begins with a combination that no row holds yet. Then the algorithm visits the other axes in a shuffled order,
and takes the level that makes the most new combinations with the levels already chosen. It makes several such rows and
keeps the best (as in AETG; Cohen, Dalal, Fredman and Patton, IEEE Trans. Softw. Eng. 23, 1997). Rows never hold an
impossible pair. Kernel axes may have a higher strength than other axes. The random numbers for the shuffle come from
our own generator, so that every Python makes the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from .axes import Axis, list_axes
from .constraints import can_complete, list_clashes

__all__ = ["STAGES", "Stage", "extend"]

#: The number of candidates for each row. The best candidate is kept.
CANDIDATES = 12

#: The axes on which later levels take more time. Among equally good levels, the generator takes the first.
COSTLY = ("size", "number", "repeated")

#: Levels of long lists, and the sizes that their longest tensor gets unless another size is better.
LONG_LISTS, LONG_TENSORS = ("n129", "n321"), ("s65537", "s262145")

Row = tuple[int, ...]


@dataclass(frozen=True)
class Stage:
    """A stage of the design. The rows hold every combination of levels of `strength` axes."""

    name: str
    #: The strength for all axes, and for kernel axes alone.
    strength: int
    kernel_strength: int
    #: The largest number of axes in a combination that may hold a heavy level.
    heavy_strength: int


#: The stages. Each keeps the rows of the earlier stages.
STAGES = (Stage("quick", 2, 2, 2), Stage("default", 2, 3, 2), Stage("thorough", 3, 4, 3))


@dataclass
class _Open:
    """The combinations of some axes' levels that no row holds yet."""

    axes: tuple[int, ...]
    missing: npt.NDArray[np.bool_]

    def find_gains(self, axis: int, row: Sequence[int]) -> npt.NDArray[np.int64] | None:
        """Return whether each level of an axis makes a new combination, or None if other axes have no level yet."""
        index: list[Any] = []
        for other in self.axes:
            if other == axis:
                index.append(slice(None))
            elif row[other] < 0:
                return None
            else:
                index.append(row[other])
        gains: npt.NDArray[np.int64] = self.missing[tuple(index)].astype(np.int64)
        return gains


@dataclass
class _Design:
    """The state of a generation."""

    operation: str
    axes: tuple[Axis, ...]
    allowed: list[list[npt.NDArray[np.bool_]]]
    targets: list[_Open] = field(default_factory=list)
    state: int = 1
    by_axis: dict[int, list[_Open]] = field(default_factory=dict)

    def shuffle(self, items: Sequence[int]) -> list[int]:
        """Return the items in another order (Fisher and Yates), with Lehmer's random numbers."""
        found = list(items)
        for last in range(len(found) - 1, 0, -1):
            self.state = self.state * 48271 % 0x7FFFFFFF
            place = self.state % (last + 1)
            found[last], found[place] = found[place], found[last]
        return found

    def find_fitting(self, row: Sequence[int], axis: int) -> npt.NDArray[np.bool_]:
        """Return, for each level of an axis, whether it fits. It must clash with no level of the row."""
        fitting = np.ones(len(self.axes[axis].levels), dtype=np.bool_)
        for other, level in enumerate(row):
            if level >= 0:
                fitting &= self.allowed[other][axis][level]
        return fitting

    def can_finish(self, row: Sequence[int]) -> bool:
        """Return whether every open axis can still get a level without a clash."""
        words = [self.axes[axis].levels[level].word for axis, level in enumerate(row) if level >= 0]
        return can_complete(self.operation, words)


def extend(operation: str, rows: Sequence[Row], stage: Stage, axes: Sequence[Axis] = ()) -> list[Row]:
    """Return rows that, together with the given ones, reach the strength of a stage.

    By default, `axes` holds all axes of the operation. An axis may lack its last levels.
    """
    design = _start(operation, stage, tuple(axes) or list_axes(operation))
    for row in rows:
        _cross_off(design, row)
    found: list[Row] = []
    for target in design.targets:
        while target.missing.any():
            best = _find_best_row(design, target)
            found.append(best)
            _cross_off(design, best)
    return found


def _start(operation: str, stage: Stage, axes: tuple[Axis, ...]) -> _Design:
    clashes = list_clashes(operation)
    allowed = [
        [np.array([[b not in clashes[a] for b in other.list_words()] for a in axis.list_words()]) for other in axes]
        for axis in axes
    ]
    design = _Design(operation, axes, allowed)
    for chosen in _list_groups(axes, stage):
        missing = np.ones([len(axes[axis].levels) for axis in chosen], dtype=np.bool_)
        heavy = [[level.heavy for level in axes[axis].levels] for axis in chosen]
        for place in np.ndindex(*missing.shape):
            is_heavy = len(chosen) > stage.heavy_strength and any(
                flags[level] for flags, level in zip(heavy, place, strict=True)
            )
            words = [axes[axis].levels[level].word for axis, level in zip(chosen, place, strict=True)]
            missing[place] = not is_heavy and can_complete(operation, words)
        design.targets.append(_Open(chosen, missing))
    for axis in range(len(axes)):
        design.by_axis[axis] = [target for target in design.targets if axis in target.axes]
    return design


def _list_groups(axes: Sequence[Axis], stage: Stage) -> Iterator[tuple[int, ...]]:
    """Yield the groups of axes to combine. Begin with those that have the most combinations."""
    kernel = [place for place, axis in enumerate(axes) if axis.kernel]
    groups = {*combinations(range(len(axes)), stage.strength), *combinations(kernel, stage.kernel_strength)}
    yield from sorted(groups, key=lambda group: (-np.prod([len(axes[axis].levels) for axis in group]), group))


def _find_best_row(design: _Design, target: _Open) -> Row:
    """Return the best of several rows that begin with the same missing combination."""
    seed = tuple(int(level) for level in np.unravel_index(int(target.missing.argmax()), target.missing.shape))
    best, most = None, -1
    for _ in range(CANDIDATES):
        row = [-1] * len(design.axes)
        for axis, level in zip(target.axes, seed, strict=True):
            row[axis] = level
        gained = _fill(design, row)
        if gained > most:
            best, most = tuple(row), gained
    assert best is not None
    return best


def _fill(design: _Design, row: list[int]) -> int:
    """Give each open axis a level, and return the number of new combinations."""
    gained = 0
    for axis in design.shuffle([axis for axis, level in enumerate(row) if level < 0]):
        gains = np.zeros(len(design.axes[axis].levels), dtype=np.int64)
        for target in design.by_axis[axis]:
            one = target.find_gains(axis, row)
            if one is not None:
                gains += one
        gains[~design.find_fitting(row, axis)] = -1
        for level in sorted(_sort_levels(design, axis, row), key=lambda level: -gains[level]):
            row[axis] = level
            if gains[level] >= 0 and design.can_finish(row):
                gained += int(gains[level])
                break
    return gained


def _sort_levels(design: _Design, axis: int, row: Sequence[int]) -> list[int]:
    """Return the levels of an axis in the order of preference among equally good levels.

    On costly axes, the cheapest level comes first. On other axes the order is shuffled, because the ordinary level
    would be taken too often otherwise. In long lists, long tensors come first: such lists are costly anyway, and few
    rows have long tensors at the far places of a list.
    """
    about = design.axes[axis]
    order = list(range(len(about.levels)))
    if about.name not in COSTLY:
        order = design.shuffle(order)
        order.sort(key=lambda level: about.levels[level].hides)
    elif about.name == "size":
        number = next(place for place, other in enumerate(design.axes) if other.name == "number")
        if row[number] >= 0 and design.axes[number].levels[row[number]].word in LONG_LISTS:
            order = design.shuffle(order)
            order.sort(key=lambda level: about.levels[level].word not in LONG_TENSORS)
    return order


def _cross_off(design: _Design, row: Row) -> None:
    for target in design.targets:
        target.missing[tuple(row[axis] for axis in target.axes)] = False
