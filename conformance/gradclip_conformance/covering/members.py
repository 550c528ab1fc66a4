"""Choose the shapes and layouts of a list's tensors, and which of them count much in a common norm.

The levels of a row describe its longest tensor. Where that one is excluded, another one of its length is included, and
the other way round, so that the levels meet on both sides. The others are short: many small ones of many kinds ask much
for little, because they stand in the same loops and at the same places.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from .shapes import MIXED, choose_shape, choose_size, choose_small_size

__all__ = ["Member", "choose_members", "draw_of"]

#: The shapes and layouts of the others, in a list of various ones.
SHAPES = ("flat", "odd", "even", "square", "one-row", "one-column", "three", "five", "scalar")
LAYOUTS = ("contiguous", "fortran", "strided", "gaps")

#: Multi-tensor kernels start another launch after so many tensors.
LAUNCHES = (32, 64, 110, 128, 256, 320, 1000, 1024)

#: Of a launch so many tensors count much: those beside its ends.
WATCHED = 20

#: Lists of so many tensors hold several long ones at the end.
SEVERAL = 111

#: There are so many of them at most, with so many elements in all.
MOST_LONG, ELEMENTS = 10, 500_000

#: These sizes cost too much to be there twice.
ONCE = ("s131073", "s262145")


@dataclass(frozen=True)
class Member:
    """One tensor of a list."""

    shape: tuple[int, ...]
    #: The word of a level.
    layout: str
    #: Whether it is as long as its row asks.
    is_long: bool
    #: Whether it stands where a launch begins or ends.
    is_watched: bool


def choose_members(
    levels: Mapping[str, str], count: int, longest: int, excluded: set[int], missing: set[int]
) -> list[Member]:
    """Return what each tensor of a row is like; those that are None, too."""
    draw = draw_of(levels)
    size, low, high = choose_size(levels["size"], draw // 16)
    long = _choose_long_ones(levels, size, count, longest, excluded - missing, missing)
    watched = _list_watched_places(count)
    found = []
    for place in range(count):
        word, layout, length = _choose_other(levels, size, draw, place)
        if place not in long:
            shape = choose_shape(word, length, min(1, length), max(length, 1))
        elif place == longest or len(long) <= 2:
            shape, layout = choose_shape(levels["shape"], size, low, high), levels["layout"]
        else:
            shape = choose_shape(_choose_fitting(word, size), size, low, high)
        found.append(Member(shape, layout, place in long, place in watched))
    return found


def draw_of(levels: Mapping[str, str]) -> int:
    """Return a number that chooses among what a row leaves open."""
    return zlib.crc32("_".join(levels.values()).encode())


def _choose_long_ones(
    levels: Mapping[str, str], size: int, count: int, longest: int, excluded: set[int], missing: set[int]
) -> set[int]:
    """Return the places of the longest tensors: an included one, and an excluded one if there is any."""
    counted = [place for place in range(count) if place not in excluded and place not in missing]
    long = {longest}
    if count >= SEVERAL and levels["company"] != "alike":
        # Far places meet long tensors of several kinds.
        several = min(MOST_LONG, max(1, ELEMENTS // max(size, 1)))
        long |= {place for place in range(count - 1, count - 1 - 3 * several, -3) if place not in missing}
    if longest in excluded | missing and counted:
        # The last one, unless the longest is to stand first.
        long.add(counted[0] if levels["place"] == "long-first" else counted[-1])
    elif excluded and levels["size"] not in ONCE:
        long.add(max(excluded))
    return long


def _choose_fitting(shape: str, size: int) -> str:
    """Return the shape, unless a tensor of this size cannot have it."""
    return "flat" if shape == "scalar" and size != 1 else shape


def _choose_other(levels: Mapping[str, str], size: int, draw: int, place: int) -> tuple[str, str, int]:
    """Return the words for shape and layout, and the length, of a tensor beside the longest one."""
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
    """Return the first place, that in the middle, those beside the limits of launches, and the last ones."""
    last_launch = max((limit for limit in LAUNCHES if limit < count), default=0)
    beside = {place for limit in LAUNCHES for place in (limit - 1, limit) if place < count}
    return frozenset({0, count // 2, *beside, *range(max(last_launch, count - WATCHED), count)})
