"""Choose how many tensors a list has, their shapes and layouts, and which must have weight in a common norm.

The levels of a row describe its longest tensor. If this tensor is excluded, another tensor of its length is included,
and vice versa, so that the levels are tested in included and in excluded tensors. The other tensors are short. Many
short tensors of many kinds test much in little time, because kernels treat them in the same loops as long ones.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from .axes import CROWDED, LONG

#: For each level: how many tensors a list may have. These are both ends of a range, and some numbers between.
NUMBERS = {
    "n0": (0,),
    "n1": (1,),
    "n2": (2,),
    "n3": (3, 5, 9),
    "n10": (10, 17, 31),
    "n33": (33, 47, 63),
    "n65": (65, 81, 110),
    "n111": (111, 127, 128),
    "n129": (129, 273, 289, 320),
    "n321": (1041, 1049, 1033, 321),
}

#: The sizes of each level, on both sides of the sizes at which kernels split work. Most are small, to save time. The
#: last chunk has 1 element, 17, or one less than a whole chunk. Among 17 elements, one is beyond a bound at any rate.
SIZES = {
    "s0": (0,),
    "s1": (1,),
    "s2": (2, 3),
    "s4": (4, 5, 7),
    "s9": (9, 11, 15, 17, 31),
    "s33": (33, 63, 65, 511),
    "s513": (513, 769, 1023),
    "s1025": (1025, 2047, 2049, 4095),
    "s4097": (4097, 4113, 8209, 16383),
    "s16385": (16385, 16401, 16387, 32767, 32785, 65535),
    "s65537": (65537, 65553, 65553, 65539, 98321, 131071),
    "s131073": (131073, 131089, 131089, 262143),
    "s262145": (*(262145, 262161) * 10, 262147, 1048577),
}

#: The largest size that a shape of the last level may have.
LARGEST = 1048577 + 4096

#: The sizes of the tensors beside the longest one, used in turn. SMALL is for lists of equal shapes, MIXED for others.
SMALL = (1, 2, 3, 5, 8, 13, 17, 40, 67, 131)
MIXED = (1, 2, 3, 5, 7, 9, 12, 15, 17, 31, 33, 65, 67, 101, 129, 131, 515, 1027)

#: For each level: the lengths of the axes after the first. Lengths near the wanted size come first.
WIDTHS = {
    "flat": ((),),
    "even": ((34,), (6,), (4,), (2,)),
    "one-column": ((1,),),
    "odd": ((33,), (7,), (5,), (3,), (1,)),
    "three": tuple(product((3, 2, 1), (5, 3, 1))),
    "six": ((2, 1, 3, 1, 2), (1, 2, 1, 1, 1), (1, 1, 1, 1, 1)),
    "five": ((2, 3, 1, 3), (2, 1, 3, 1), (1, 2, 1, 1), (1, 1, 1, 1)),
}

EMPTY = {
    "flat": (0,),
    "one-row": (1, 0),
    "one-column": (0, 1),
    "even": (0, 4),
    "odd": (3, 0),
    "square": (0, 0),
    "three": (2, 0, 3),
    "five": (1, 2, 0, 1, 3),
    "six": (1, 2, 0, 1, 3, 1),
}

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
    size, low, high = _choose_size(levels["size"], draw // 16)
    long = _choose_long_ones(levels, count, longest, excluded - missing, missing)
    if len(long) > 1 and size > MOST_OF_SEVERAL:
        # Two tensors of a million elements would take most of the memory of a check.
        size = low
    watched = _list_watched_places(count)
    found = []
    for place in range(count):
        if place not in long:
            word, layout, length = _choose_other(levels, size, draw, place)
            shape = _choose_shape(word, length, min(1, length), max(length, 1))
        elif place == longest or len(long) <= 2 or levels["company"] == "alike":
            shape, layout = _choose_shape(levels["shape"], size, low, high), levels["layout"]
        else:
            # A kernel for lists may fail only for a long tensor of one kind near the end of a long list.
            turn, layouts = draw // 16 + count - 1 - place, (levels["layout"], *LAYOUTS)
            # The sizes of the row's level, and of the two below it.
            sizes = LONG[: LONG.index(levels["size"]) + 1][-3:]
            length, least, most = _choose_size(sizes[turn % len(sizes)], turn)
            length = least if length > MOST_OF_SEVERAL else length
            shape = _choose_shape(LONG_SHAPES[turn % len(LONG_SHAPES)], length, least, most)
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
        length = SMALL[(draw + place) % len(SMALL)]
    else:
        mixed = zlib.crc32(b"%d %d" % (draw, place))
        shape = SHAPES[mixed % len(SHAPES)]
        if company != "shapes":
            layouts = (*LAYOUTS, "reversed") if company == "mirrored" else LAYOUTS
            layouts = layouts if layout in layouts else (*layouts, layout)
            layout = layouts[mixed // 16 % len(layouts)]
        length = MIXED[mixed // 256 % len(MIXED)]
    return shape, layout, min(length, size)


@lru_cache(maxsize=64)
def _list_watched_places(count: int) -> frozenset[int]:
    """Return the first place, the place in the middle, the places beside the ends of launches, and the last places."""
    last_launch = max((limit for limit in LAUNCHES if limit < count), default=0)
    beside = {place for limit in LAUNCHES for place in (limit - 1, limit) if place < count}
    return frozenset({0, count // 2, *beside, *range(max(last_launch, count - WATCHED), count)})


def choose_number(word: str, draw: int) -> int:
    """Return the number of tensors. `draw` chooses among the numbers of the level."""
    return NUMBERS[word][draw % len(NUMBERS[word])]


def _choose_size(word: str, draw: int) -> tuple[int, int, int]:
    """Return a size of the level, and the least and the largest size that its shape may have."""
    sizes = SIZES[word]
    return sizes[draw % len(sizes)], sizes[0], LARGEST if word == "s262145" else sizes[-1]


def _choose_shape(word: str, size: int, low: int, high: int) -> tuple[int, ...]:
    """Return a shape of a level with about `size` elements, between `low` and `high` if there is such a shape."""
    if word == "scalar":
        return ()
    if size == 0:
        return EMPTY[word]
    if word == "one-row":
        return (1, size)
    if word == "square":
        side = math.isqrt(size)
        return next(((each, each) for each in (side, side + 1) if low <= each * each <= high), (side, side))
    for widths in WIDTHS[word]:
        row = math.prod(widths)
        for rows in (size // row, size // row + 1):
            if rows and low <= rows * row <= high:
                return (rows, *widths)
    # Tensors other than the longest may have any size.
    return (1, *WIDTHS[word][-1])
