"""Generate the rows of a covering design with a deterministic greedy algorithm.

Each row begins with a combination that no row holds yet. Then the algorithm visits the other axes in a shuffled order,
and takes the level that makes the most new combinations with the levels already chosen. It makes some such rows and
keeps the best (as in AETG; Cohen, Dalal, Fredman and Patton, IEEE Trans. Softw. Eng. 23, 1997). Rows never hold an
impossible pair. Kernel axes may have a higher strength than other axes. The random numbers for the shuffle come from
our own generator, so that every Python makes the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations, permutations

import numpy as np
import numpy.typing as npt

from .axes import Axis, list_axes
from .constraints import Masks, can_complete_mask, make_masks

__all__ = ["STAGES", "Missing", "Stage", "extend"]

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
    #: The number of candidates for each row. The best candidate is kept. Three candidates instead of one saved 4 % of
    #: 6,000 rows and took twice the time.
    candidates: int = 12


#: The stages. Each keeps the rows of the earlier stages.
STAGES = (Stage("quick", 2, 2, 2), Stage("default", 2, 3, 2), Stage("thorough", 3, 4, 4, candidates=1))


@dataclass
class Missing:
    """The combinations of levels of `strength` axes that no row holds yet.

    Each dimension of the array counts the levels of all axes, and each combination stands there in every order.
    """

    axes: frozenset[int]
    strength: int
    array: npt.NDArray[np.bool_]

    def find_gains(self, levels: Sequence[int], level: int) -> npt.NDArray[np.int64]:
        """Return, for each level, how many missing combinations hold it, `level`, and otherwise some of `levels`."""
        between = self.strength - 2
        chosen = self.array[level][np.ix_(*[levels] * between)]
        found: npt.NDArray[np.int64] = np.add.reduce(chosen, tuple(range(between)), np.int64)
        return found // math.factorial(between)

    def cross_off(self, levels: Sequence[int]) -> None:
        """Note that a row with these levels is in the design."""
        self.array[np.ix_(*[levels] * self.strength)] = False


@dataclass
class _Design:
    """The state of a generation."""

    axes: tuple[Axis, ...]
    masks: Masks
    #: The index of the first level of each axis, if the levels of all axes are counted.
    starts: tuple[int, ...]
    missing: list[Missing] = field(default_factory=list)
    state: int = 1

    def shuffle(self, items: Sequence[int]) -> list[int]:
        """Return the items in another order (Fisher and Yates), with Lehmer's random numbers."""
        found = list(items)
        for last in range(len(found) - 1, 0, -1):
            self.state = self.state * 48271 % 0x7FFFFFFF
            place = self.state % (last + 1)
            found[last], found[place] = found[place], found[last]
        return found

    def list_levels(self, row: Sequence[int], axes: frozenset[int]) -> list[int]:
        """Return the levels that a row has on some axes."""
        return [self.starts[axis] + level for axis, level in enumerate(row) if level >= 0 and axis in axes]

    def view(self, group: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Return the missing combinations of the levels of a group of axes."""
        array = next(each.array for each in self.missing if each.strength == len(group))
        return array[tuple(slice(self.starts[axis], self.starts[axis + 1]) for axis in group)]

    def cross_off(self, row: Row) -> None:
        """Note that a row is in the design."""
        for missing in self.missing:
            missing.cross_off(self.list_levels(row, missing.axes))


class _Candidate:
    """A row in the making."""

    def __init__(self, design: _Design) -> None:
        self.design = design
        self.row = [-1] * len(design.axes)
        #: The levels that clash with no level of the row.
        self.left = design.masks.every
        #: The number of new combinations that each level would make with the levels of the row.
        self.gains = np.zeros(design.starts[-1], dtype=np.int64)

    def take(self, axis: int, level: int) -> None:
        """Give an axis a level."""
        index = self.design.starts[axis] + level
        for missing in self.design.missing:
            if axis in missing.axes:
                levels = self.design.list_levels(self.row, missing.axes)
                self.gains[: len(missing.array)] += missing.find_gains(levels, index)
        self.row[axis] = level
        self.left &= self.design.masks.fitting[1 << index]

    def can_take(self, axis: int, level: int) -> bool:
        """Return whether an axis can get a level, and every open axis one after it, without a clash."""
        bit = 1 << self.design.starts[axis] + level
        return bool(self.left & bit) and can_complete_mask(
            self.design.masks, self.left & self.design.masks.fitting[bit]
        )

    def fill(self) -> int:
        """Give each open axis a level, and return the number of new combinations."""
        design, gained = self.design, 0
        for axis in design.shuffle([axis for axis, level in enumerate(self.row) if level < 0]):
            start = design.starts[axis]
            gains = self.gains[start : design.starts[axis + 1]].tolist()
            order = sorted(_sort_levels(design, axis, self.row), key=lambda level: -gains[level])
            level = next(level for level in order if self.can_take(axis, level))
            gained += gains[level]
            self.take(axis, level)
        return gained


def extend(operation: str, rows: Sequence[Row], stage: Stage, axes: Sequence[Axis] = ()) -> list[Row]:
    """Return rows that, together with the given ones, reach the strength of a stage.

    By default, `axes` holds all axes of the operation. An axis may lack its last levels.
    """
    design, groups = _start(operation, stage, tuple(axes) or list_axes(operation))
    for row in rows:
        design.cross_off(row)
    found: list[Row] = []
    for group in groups:
        missing = design.view(group)
        while missing.any():
            best = _find_best_row(design, stage, group, missing)
            found.append(best)
            design.cross_off(best)
    return found


def _start(operation: str, stage: Stage, axes: tuple[Axis, ...]) -> tuple[_Design, list[tuple[int, ...]]]:
    """Return a design without rows, and the groups of axes to combine."""
    starts = tuple(accumulate((len(axis.levels) for axis in list_axes(operation)), initial=0))
    design = _Design(axes, make_masks(operation), starts)
    groups = list(_list_groups(axes, stage))
    for strength in sorted({len(group) for group in groups}):
        chosen = frozenset(axis for group in groups if len(group) == strength for axis in group)
        levels = starts[max(chosen) + 1]
        design.missing.append(Missing(chosen, strength, np.zeros((levels,) * strength, dtype=np.bool_)))
    for group in groups:
        possible = _find_possible(design, group, len(group) > stage.heavy_strength)
        missing = next(each for each in design.missing if each.strength == len(group))
        for order in permutations(range(len(group))):
            slices = (slice(starts[group[i]], starts[group[i]] + possible.shape[i]) for i in order)
            missing.array[tuple(slices)] = possible.transpose(order)
    return design, groups


def _find_possible(design: _Design, group: Sequence[int], only_light: bool) -> npt.NDArray[np.bool_]:
    """Return, for each combination of levels of a group of axes, whether a complete row can hold it."""
    levels = [design.axes[axis].levels for axis in group]
    found = np.zeros([len(each) for each in levels], dtype=np.bool_)
    fitting = [
        [
            0 if only_light and level.heavy else design.masks.fitting[1 << design.starts[axis] + place]
            for place, level in enumerate(each)
        ]
        for axis, each in zip(group, levels, strict=True)
    ]
    for place in np.ndindex(*found.shape):
        left = design.masks.every
        for masks, level in zip(fitting, place, strict=True):
            left &= masks[level]
        found[place] = can_complete_mask(design.masks, left)
    return found


def _list_groups(axes: Sequence[Axis], stage: Stage) -> Iterator[tuple[int, ...]]:
    """Yield the groups of axes to combine. Begin with those that have the most combinations."""
    kernel = [place for place, axis in enumerate(axes) if axis.kernel]
    groups = {*combinations(range(len(axes)), stage.strength), *combinations(kernel, stage.kernel_strength)}
    yield from sorted(groups, key=lambda group: (-np.prod([len(axes[axis].levels) for axis in group]), group))


def _find_best_row(design: _Design, stage: Stage, group: Sequence[int], missing: npt.NDArray[np.bool_]) -> Row:
    """Return the best of several rows that begin with the same missing combination."""
    first = np.unravel_index(int(missing.argmax()), missing.shape)
    best, most = None, -1
    for _ in range(stage.candidates):
        candidate = _Candidate(design)
        for axis, level in zip(group, first, strict=True):
            candidate.take(axis, int(level))
        gained = candidate.fill()
        if gained > most:
            best, most = tuple(candidate.row), gained
    assert best is not None
    return best


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
