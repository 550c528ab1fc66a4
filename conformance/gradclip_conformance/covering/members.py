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

from .shapes import MIXED, choose_shape, choose_size, choose_small_size

__all__ = ["CROWD", "CROWD_NUMBER", "Member", "choose_members", "hash_levels", "is_crowd"]

#: If a list holds various tensors, its short tensors have these shapes and layouts.
SHAPES = ("flat", "odd", "even", "square", "one-row", "one-column", "three", "five", "scalar")
LAYOUTS = ("contiguous", "fortran", "strided", "gaps")

#: The numbers of tensors after which multi-tensor kernels start another launch.
LAUNCHES = (32, 64, 110, 128, 256, 320, 1000, 1024)

#: At most this many tensors at the end of a list are watched. They all belong to its last launch.
WATCHED = 20

#: A list of at least this many tensors has several long tensors at its end.
SEVERAL = 111

#: The largest number of these long tensors, and an approximate limit for the sum of their lengths.
MOST_LONG, ELEMENTS = 10, 500_000

#: The levels of a crowd: ten long tensors of all shapes and layouts stand beyond the 1,024th place of a list.
CROWD = {
    "size": "s262145",
    "number": "n321",
    "company": "various",
    "place": "long-last",
    "data": "numbers",
    "none": "all-there",
}
#: In a crowd: the number of tensors, the number of elements of each long tensor, and the shapes of the long tensors.
CROWD_NUMBER = 1041
CROWD_SIZE = 262145
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
    crowded = is_crowd(levels)
    size, low, high = choose_size(levels["size"], draw // 16)
    size = CROWD_SIZE if crowded else size
    long = _choose_long_ones(levels, size, count, longest, excluded - missing, missing)
    if crowded:
        long = set(range(count - MOST_LONG, count))
    watched = _list_watched_places(count)
    found = []
    for place in range(count):
        word, layout, length = _choose_other(levels, size, draw, place)
        if crowded and place in long:
            turn = count - 1 - place
            layouts = (levels["layout"], *LAYOUTS)
            word = levels["shape"] if place == longest else LONG_SHAPES[turn % len(LONG_SHAPES)]
            shape, layout = choose_shape(word, size, low, high), layouts[turn % len(layouts)]
        elif place not in long:
            shape = choose_shape(word, length, min(1, length), max(length, 1))
        elif place == longest or len(long) <= 2:
            shape, layout = choose_shape(levels["shape"], size, low, high), levels["layout"]
        else:
            shape = choose_shape(_choose_fitting(word, size), size, low, high)
        found.append(Member(shape, layout, place in long, place in watched))
    return found


def is_crowd(levels: Mapping[str, str]) -> bool:
    """Return whether a row asks for many long tensors in a long list."""
    return all(levels[axis] == word for axis, word in CROWD.items())


def hash_levels(levels: Mapping[str, str]) -> int:
    """Return a number that depends on all levels. It decides what the levels of a row leave open."""
    return zlib.crc32("_".join(levels.values()).encode())


def _choose_long_ones(
    levels: Mapping[str, str], size: int, count: int, longest: int, excluded: set[int], missing: set[int]
) -> set[int]:
    """Return the places of the long tensors: an included one, an excluded one if any, and several in a long list."""
    counted = [place for place in range(count) if place not in excluded and place not in missing]
    long = {longest}
    if count >= SEVERAL and levels["company"] != "alike":
        # Put long tensors of several kinds at the far places of the list.
        several = min(MOST_LONG, max(1, ELEMENTS // max(size, 1)))
        long |= {place for place in range(count - 1, count - 1 - 3 * several, -3) if place not in missing}
    if longest in excluded | missing and counted:
        # Take the last included tensor, unless the row asks for the longest tensor at the first place.
        long.add(counted[0] if levels["place"] == "long-first" else counted[-1])
    elif excluded and levels["size"] not in ONCE:
        long.add(max(excluded))
    return long


def _choose_fitting(shape: str, size: int) -> str:
    """Return the shape, or `flat` if a tensor of this size cannot have the shape."""
    return "flat" if shape == "scalar" and size != 1 else shape


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
