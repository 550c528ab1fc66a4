"""Choose the shapes and layouts of a list's tensors, and which of them must have weight in a common norm.

The levels of a row describe its longest tensor. If this tensor is excluded, another tensor of its length is included,
and vice versa, so that the levels are tested in included and in excluded tensors. The other tensors are short. Many
short tensors of many kinds test much in little time, because kernels treat them in the same loops as long ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from .axes import CROWDED, LONG
from .shapes import MIXED, choose_shape, choose_size, choose_small_size

__all__ = ["Member", "choose_members", "hash_levels"]

#: If a list holds various tensors, its short tensors have these shapes and layouts.
SHAPES = ("flat", "odd", "even", "square", "one-row", "one-column", "three", "five", "scalar", "six")
LAYOUTS = ("contiguous", "fortran", "strided", "gaps")

#: The numbers of tensors after which multi-tensor kernels start another launch.
LAUNCHES = (32, 64, 110, 128, 256, 320, 1000, 1024)

#: At most this many tensors at the end of a list are watched. They all belong to its last launch.
WATCHED = 20

#: The number of long tensors at the end of a long list, unless all tensors are alike.
SEVERAL = 6

#: If a row has several long tensors, none of them has more elements.
MOST_OF_SEVERAL = 1 << 20

#: The shapes of these long tensors, unless all are alike.
LONG_SHAPES = ("flat", "odd", "three", "square", "even", "five", "one-row", "one-column")

#: At these sizes the excluded tensors stay short, because a second long tensor would take too much time.
ONCE = ("s131073", "s262145")


@dataclass(frozen=True)
class Member:
    """One tensor of a list."""

    shape: tuple[int, ...]
    #: A level of the axis `layout`.
    layout: str
    #: Whether the tensor has the size of the row's level.
    is_long: bool
    #: Whether a kernel may lose the tensor, because its place is near the start or the end of the list or of a launch.
    #: A watched tensor gets much weight in the common norm, so that its loss shows.
    is_watched: bool


def choose_members(
    levels: Mapping[str, str], count: int, longest: int, excluded: set[int], missing: set[int]
) -> list[Member]:
    """Return the description of each tensor of a row, including the tensors that are None."""
    draw = hash_levels(levels)
    size, low, high = choose_size(levels["size"], draw // 16)
    long = _choose_long_ones(levels, count, longest, excluded - missing, missing)
    if len(long) > 1 and size > MOST_OF_SEVERAL:
        # Two tensors of a million elements would take most of the memory of a check.
        size = low
    watched = _list_watched_places(count)
    found = []
    for place in range(count):
        if place not in long:
            word, layout, length = _choose_other(levels, size, draw, place)
            shape = choose_shape(word, length, min(1, length), max(length, 1))
        elif place == longest or len(long) <= 2 or levels["company"] == "alike":
            shape, layout = choose_shape(levels["shape"], size, low, high), levels["layout"]
        else:
            # A kernel for lists may fail only for a long tensor of one kind near the end of a long list.
            turn, layouts = draw // 16 + count - 1 - place, (levels["layout"], *LAYOUTS)
            # The sizes of the row's level, and of the two below it.
            sizes = LONG[: LONG.index(levels["size"]) + 1][-3:]
            length, least, most = choose_size(sizes[turn % len(sizes)], turn)
            length = least if length > MOST_OF_SEVERAL else length
            shape = choose_shape(LONG_SHAPES[turn % len(LONG_SHAPES)], length, least, most)
            layout = layouts[turn % len(layouts)]
        found.append(Member(shape, layout, place in long, place in watched))
    return found


def hash_levels(levels: Mapping[str, str]) -> int:
    """Return a number that depends on all levels. It decides what the levels of a row leave open."""
    return zlib.crc32("_".join(levels.values()).encode())


def _choose_long_ones(
    levels: Mapping[str, str], count: int, longest: int, excluded: set[int], missing: set[int]
) -> set[int]:
    """Return the places of the long tensors: an included one, an excluded one if any, and several in a long list."""
    counted = [place for place in range(count) if place not in excluded and place not in missing]
    long = {longest}
    if levels["size"] in LONG and levels["number"] in CROWDED:
        # Put several long tensors at the end of the list.
        several = 1 if levels["company"] == "alike" else SEVERAL
        long |= {place for place in range(count - several, count) if place not in missing}
    if longest in excluded | missing and counted:
        # Take the last included tensor, unless the row asks for the longest tensor at the first place.
        long.add(counted[0] if levels["place"] == "long-first" else counted[-1])
    elif excluded and levels["size"] not in ONCE:
        long.add(max(excluded))
    return long


def _choose_other(levels: Mapping[str, str], size: int, draw: int, place: int) -> tuple[str, str, int]:
    """Return the shape, the layout and the length of a tensor beside the longest one."""
    company, shape, layout = levels["company"], levels["shape"], levels["layout"]
    if company == "alike":
        length = choose_small_size(draw + place, size)
    else:
        mixed = zlib.crc32(b"%d %d" % (draw, place))
        shape = SHAPES[mixed % len(SHAPES)]
        if company != "shapes":
            layouts = (*LAYOUTS, "reversed") if company == "mirrored" else LAYOUTS
            layouts = layouts if layout in layouts else (*layouts, layout)
            layout = layouts[mixed // 16 % len(layouts)]
        length = choose_small_size(mixed // 256, size, MIXED)
    return shape, layout, length


@lru_cache(maxsize=64)
def _list_watched_places(count: int) -> frozenset[int]:
    """Return the first place, the place in the middle, the places beside the ends of launches, and the last places."""
    last_launch = max((limit for limit in LAUNCHES if limit < count), default=0)
    beside = {place for limit in LAUNCHES for place in (limit - 1, limit) if place < count}
    return frozenset({0, count // 2, *beside, *range(max(last_launch, count - WATCHED), count)})
