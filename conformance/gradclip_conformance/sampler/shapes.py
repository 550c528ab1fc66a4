"""Choose the number of tensors, their sizes and their shapes for the levels of a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

__all__ = ["MIXED", "choose_number", "choose_shape", "choose_size", "choose_small_size"]

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


def choose_number(word: str, draw: int) -> int:
    """Return the number of tensors. `draw` chooses among the numbers of the level."""
    return NUMBERS[word][draw % len(NUMBERS[word])]


def choose_size(word: str, draw: int) -> tuple[int, int, int]:
    """Return a size of the level, and the least and the largest size that its shape may have."""
    sizes = SIZES[word]
    return sizes[draw % len(sizes)], sizes[0], LARGEST if word == "s262145" else sizes[-1]


def choose_small_size(place: int, largest: int, sizes: Sequence[int] = SMALL) -> int:
    """Return the size of a tensor beside the longest one."""
    return min(sizes[place % len(sizes)], largest)


def choose_shape(word: str, size: int, low: int, high: int) -> tuple[int, ...]:
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
