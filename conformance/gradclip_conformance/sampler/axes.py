"""Define the axes of the sampler: the circumstances of a call, their levels, and the reason for each.

A row is one call, with one level of each axis. The first level of an axis is the ordinary one, which every entry point
supports. Writing in place is not an axis here, because it depends on the entry point: each entry point either writes in
place or does not, and gets every row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from gradclip_adapters.operations import PREFIXES

#: The operations, as the ids of rules name them.
OPERATIONS = tuple(PREFIXES)


@dataclass(frozen=True)
class Level:
    """One level of an axis."""

    #: The word for the level in the ids of cases. It is unique among all axes, and never changes.
    word: str
    reason: str
    #: A level is drawn as often as its weight says, compared with the other levels of its axis.
    weight: int


@dataclass(frozen=True)
class Axis:
    """One axis."""

    name: str
    levels: tuple[Level, ...]
    #: The operations that have the axis.
    operations: tuple[str, ...] = OPERATIONS

    def list_words(self) -> list[str]:
        """Return the words of the levels."""
        return [level.word for level in self.levels]


#: The weights of an axis's ordinary level, of its other levels, and of those that hide the effects of other levels in
#: their row, as a NaN in the norm does.
ORDINARY, USUAL, HIDING = 8, 4, 1


def _make_levels(*pairs: tuple[str, str]) -> tuple[Level, ...]:
    """Return levels. "-" before a word marks a level that hides others, and "NUMBER*" gives a weight of its own."""
    return tuple(
        _make_level(word, reason, ORDINARY if place == 0 else USUAL) for place, (word, reason) in enumerate(pairs)
    )


def _make_level(word: str, reason: str, weight: int) -> Level:
    if word.startswith("-"):
        return Level(word[1:], reason, HIDING)
    own, star, rest = word.partition("*")
    return Level(rest, reason, int(own)) if star else Level(word, reason, weight)


BY_NORM = tuple(name for name, about in PREFIXES.items() if about.takes_orders)
#: The operations whose gradients are stacked from the gradients of examples, or from units.
STACKED = tuple(name for name, about in PREFIXES.items() if about.is_stacked)
#: The operations that can leave out a gradient, or take None for one. No function per example does.
EXCLUDING = tuple(name for name, about in PREFIXES.items() if "need_clip" in about.parameters)
CUT = "between two sizes at which kernels split their work"
LISTED = "between two numbers of tensors at which multi-tensor kernels start another launch"

AXES = (
    Axis(
        "dtype",
        _make_levels(
            ("float32", "the dtype of most training"),
            # Many levels of other axes do not fit it, so it would be drawn too seldom.
            ("7*float16", "few digits, a narrow range"),
            ("bfloat16", "fewest digits, a wide range"),
            ("float64", "most digits: reveals a detour through float32"),
            ("float16+float32", "mixed, the narrow one first: some libraries use the first dtype for all"),
            ("float64+float32", "mixed, the wide one first"),
            ("float32+float64", "mixed, the wide one last"),
            ("float32+float16", "mixed, the narrow one last"),
            ("bfloat16+float32", "mixed: the same range, but different numbers of digits"),
        ),
    ),
    Axis(
        "size",
        _make_levels(
            ("40*s33", f"33 to 511 elements in the longest tensor: {CUT}"),
            ("6*s0", "no element"),
            ("10*s1", "one element"),
            ("10*s2", "2 or 3 elements: less than a vector"),
            ("14*s4", "4 to 7 elements: a vector of 4 and its tail"),
            ("24*s9", "9 to 31 elements: a vector of 8 or 16 and its tail"),
            ("12*s513", f"513 to 1,023 elements: {CUT}"),
            ("8*s1025", f"1,025 to 4,095 elements: {CUT}"),
            ("4*s4097", f"4,097 to 16,383 elements: {CUT}"),
            ("4*s16385", f"16,385 to 65,535 elements: {CUT}"),
            ("5*s65537", f"65,537 to 131,071 elements: {CUT}"),
            ("4*s131073", f"131,073 to 262,143 elements: {CUT}"),
            ("6*s262145", "more than 2^18 elements, and some more than 2^20"),
        ),
    ),
    Axis(
        "number",
        _make_levels(
            ("40*n3", "3 to 9 tensors: a small list"),
            ("6*n0", "no tensor"),
            ("24*n1", "one tensor"),
            ("16*n2", "two tensors"),
            ("8*n10", "10 to 31 tensors"),
            ("3*n111", f"111 to 128 tensors: {LISTED}"),
            ("4*n33", "33 to 63 tensors: flags beyond 32 bits"),
            ("3*n65", f"65 to 110 tensors: {LISTED}"),
            ("4*n129", f"129 to 320 tensors: {LISTED}"),
            ("5*n321", f"321 to 1,049 tensors: {LISTED}"),
        ),
    ),
    Axis(
        "shape",
        _make_levels(
            ("flat", "one axis"),
            ("scalar", "no axis"),
            ("even", "a matrix of even width"),
            ("odd", "a matrix of odd width: rows that fill no vector"),
            ("one-row", "a matrix of one row"),
            ("one-column", "a matrix of one column"),
            ("square", "a square matrix: its transpose has the same shape"),
            ("three", "three axes"),
            ("five", "five axes, one more than the weights of a 2D convolution"),
            ("six", "six axes"),
        ),
    ),
    Axis(
        "layout",
        _make_levels(
            ("contiguous", "row by row, without gaps"),
            ("fortran", "column by column"),
            ("strided", "every other element of a buffer"),
            ("gaps", "the middle of a larger buffer: gaps between rows"),
            ("reversed", "negative strides"),
            ("broadcast", "strides of zero: all rows (or all elements of a vector) share memory"),
            ("packed", "all such tensors of the call lie in one buffer, one after another"),
            ("swapped", "the byte order of another processor, only for functions that declare it"),
            ("read-only", "row by row, in memory that cannot be written"),
            ("unaligned", "the elements do not begin at a multiple of their size"),
        ),
    ),
    Axis(
        "relation",
        _make_levels(
            ("above", "the norm is twice the threshold, or some elements are beyond the bound"),
            ("zero", "a threshold of 0"),
            ("far-below", "the norm is a fiftieth of the threshold, or no element is near the bound"),
            ("below", "the norm is half the threshold, or all elements are within the bound"),
            ("slightly-below", "the norm is 0.4 % below the threshold, or more if a sum is less exact"),
            ("just-below", "the threshold is the next number above the norm"),
            ("at", "the norm is the threshold"),
            ("just-above", "the threshold is the next number below the norm"),
            ("slightly-above", "as far above the threshold, which reveals a coefficient of 1"),
            ("far-above", "the norm is fifty times the threshold, or all elements are beyond the bound"),
            ("infinite", "a threshold of infinity"),
            ("tiny", "the threshold is a ten-thousandth of the norm, or of the elements"),
            ("beyond", "a finite threshold beyond the largest number of the dtype"),
        ),
    ),
    Axis(
        "company",
        _make_levels(
            ("alike", "the other tensors have the same shape and layout, as fast paths of libraries require"),
            ("shapes", "the other tensors have other shapes, but the same layout"),
            ("various", "the other tensors have other shapes and layouts"),
            ("mirrored", "the other tensors have other shapes and layouts, with negative strides among them"),
        ),
    ),
    Axis(
        "excluded",
        _make_levels(
            ("all-in", "nothing is excluded"),
            ("x-first", "the first is excluded"),
            ("x-middle", "the gradient in the middle is excluded"),
            ("x-last", "the last is excluded"),
            ("-x-all", "all are excluded"),
            ("x-but-one", "all but one are excluded"),
            ("x-odd", "every other gradient is excluded, from the second on"),
            ("x-even", "every other gradient is excluded, from the first on"),
            ("1*x-from-32", "all from the 33rd on are excluded: flags beyond 32 bits"),
            ("1*x-from-64", "all from the 65th on are excluded: flags beyond 64 bits"),
        ),
        operations=EXCLUDING,
    ),
    Axis(
        "none",
        _make_levels(
            ("all-there", "every parameter has a gradient"),
            ("none-first", "the first parameter has no gradient"),
            ("none-middle", "the parameter in the middle has no gradient"),
            ("none-last", "the last parameter has no gradient"),
            ("-none-all", "no parameter has a gradient"),
        ),
        operations=EXCLUDING,
    ),
    Axis(
        "place",
        _make_levels(
            ("long-last", "the longest tensor stands last"),
            ("long-first", "the longest tensor stands first"),
            ("long-middle", "the longest tensor stands in the middle"),
        ),
    ),
    Axis(
        "data",
        _make_levels(
            ("numbers", "both signs, every digit"),
            ("constant", "all elements are the same"),
            ("negative", "all elements are negative: reveals a maximum without absolute values"),
            ("alternating", "signs alternate: a sum without squares is zero"),
            ("one-large", "one large element among small ones"),
            ("ends-equal", "the first and last elements are equal: reveals a wrong shortcut for constants"),
            ("sorted", "in ascending order"),
            ("subnormals", "subnormal numbers beside normal ones"),
            ("zeros", "zeros of both signs among numbers"),
            ("edges", "only the first and the last elements are not zero: reveals a lost edge"),
            ("-nan-first", "a NaN at the start"),
            ("-nan-middle", "a NaN in the middle, where a check of the ends does not look"),
            ("-nan-last", "a NaN at the end, in the last chunk"),
            ("-infinity-first", "an infinity at the start"),
            ("-infinity-middle", "an infinity in the middle"),
            ("-infinity-last", "an infinity at the end, in the last chunk"),
        ),
    ),
    Axis(
        "magnitude",
        _make_levels(
            ("ordinary", "squares and their sum are far from the ends of the range"),
            ("squares-over", "squares overflow"),
            ("sum-over", "squares do not overflow, but the sum of many does"),
            ("squares-under", "squares underflow"),
            ("near-largest", "the norm is near the largest number of the dtype"),
            ("near-smallest", "the elements are near the smallest normal number"),
        ),
    ),
    Axis(
        "norm",
        _make_levels(
            ("no-norm", "norm_type is left out"),
            ("p2", "norm_type 2 is given"),
            ("p1", "the sum of magnitudes"),
            ("p3", "an odd power"),
            ("p4", "an even power other than 2"),
            ("p1.5", "a non-integer power above 1"),
            ("p2.5", "a non-integer power above 2"),
            ("p0.5", "a power below 1"),
            ("p-inf", "the largest magnitude"),
            ("p6", "a large even power"),
        ),
        operations=BY_NORM,
    ),
    Axis(
        "threshold",
        _make_levels(
            ("digits", "a number of many digits"),
            ("integer", "a Python int"),
            ("scalar-32", "a NumPy float32"),
            ("scalar-64", "a NumPy float64"),
            ("long-integer", "a Python int beyond 2^31"),
        ),
    ),
    Axis(
        "flags",
        _make_levels(
            ("bool", "Python bools"),
            # Flags of 1 and 0 may be refused, so only the rule `flag-kinds` tests them.
            ("numpy-bool", "NumPy bools"),
        ),
        operations=EXCLUDING,
    ),
    Axis(
        "bounds",
        _make_levels(("-max-only", "only max is given"), ("min-max", "max and min are given, and min is not -max")),
        operations=tuple(name for name, about in PREFIXES.items() if not about.is_by_norm),
    ),
    Axis(
        "flag",
        _make_levels(
            ("no-flag", "error_if_nonfinite is left out"),
            ("lenient", "error_if_nonfinite is False"),
            ("strict", "error_if_nonfinite is True, and the norm is finite"),
        ),
        operations=tuple(name for name, about in PREFIXES.items() if "error_if_nonfinite" in about.parameters),
    ),
    Axis(
        "examples",
        _make_levels(
            ("8*e3", "three examples"),
            ("4*e1", "one example: the sum is its gradient"),
            ("4*e2", "two examples"),
            ("3*e5", "5 to 8 examples"),
            ("2*e17", "17 examples"),
        ),
        operations=tuple(name for name, about in PREFIXES.items() if about.sums_examples),
    ),
    Axis(
        "layers",
        _make_levels(
            ("no-layers", "one norm over all tensors of an example"),
            ("layers-equal", "each tensor has an equal part of the threshold"),
            ("layers-by-size", "each tensor has a part of the threshold by its size"),
        ),
        operations=tuple(name for name, about in PREFIXES.items() if "layers" in about.parameters),
    ),
    Axis(
        "repeated",
        _make_levels(
            ("24*once", "the first call"),
            ("12*reused", "earlier calls used the tensors of the call"),
            ("12*followed", "another call is made before the results are read"),
            # This takes as much time as a hundred calls.
            ("1*threaded", "several threads make this call and another one"),
        ),
    ),
)


#: The relations for which the norm must be exact.
NEAR = ("just-below", "at", "just-above")
#: The sizes of long tensors, and the numbers of tensors in long lists.
LONG = ("s4097", "s16385", "s65537", "s131073", "s262145")
CROWDED = ("n33", "n65", "n111", "n129", "n321")


def _list_lacking(operation: str) -> tuple[str, ...]:
    """Return the levels that an operation lacks.

    Only a norm without a division can be exactly at a threshold. Stacked examples and units share no memory, and are
    judged as one gradient each, so their tensors stay small.
    """
    about = PREFIXES[operation]
    if about.is_average:
        return NEAR
    if operation not in STACKED:
        return ()
    others = ("n0",) if about.sums_examples else ("x-from-32", "x-from-64")
    return (*NEAR, "s1025", *LONG, *CROWDED, "broadcast", *others)


@cache
def list_axes(operation: str) -> tuple[Axis, ...]:
    """Return the axes of an operation, with the levels that it has."""
    lacking = _list_lacking(operation)
    return tuple(
        replace(axis, levels=tuple(level for level in axis.levels if level.word not in lacking))
        for axis in AXES
        if operation in axis.operations
    )
