"""Write the numbers of an answer for a pin, and compare a pinned answer with the present one.

Up to eight numbers are written with three digits (with two for bfloat16). More numbers get a summary:

- how many numbers there are, and how many are NaN or infinite;
- the norm of the finite numbers, as a multiple of the norm of the gradients that were passed;
- the cosine of the angle between the answer and these gradients;
- a checksum, which changes if any number or the order changes;
- the first numbers;
- the unit: the spacing of the dtype's numbers, relative to the answer. Another machine may round each number to a
  neighbour, so the comparison forgives a few units.

The checksum is a point in the plane: the sum of all numbers, each in its own direction, divided by their norm. If one
of `n` numbers of equal size is lost, the point moves by `1 / sqrt(n)`. If all numbers are rounded differently, the
errors point in different directions, and move the point by about one unit.
"""

from __future__ import annotations

import cmath
import math
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gradclip_adapters.contract import DTYPES, Array

from ..oracle.formats import FORMATS, read_float64_values

__all__ = ["is_same_behaviour", "write_numbers"]

Doubles = npt.NDArray[np.float64]

#: More numbers than this are summarised.
WRITTEN = 8
#: The summary shows this many of the first numbers.
FIRST = 3

#: The first numbers are written with three digits. Both compared numbers are rounded in this way.
THREE_DIGITS = 0.01
#: The other numbers of a summary are written with seven digits.
SEVEN_DIGITS = 1e-6
#: Each number may differ by a unit. That moves the checksum by at most a unit, unless all errors have one direction.
UNITS = 3
#: A tolerance relative to the largest of the first numbers, so that zero and the smallest number count as equal.
ABSOLUTE = 2.0**-20

_NUMBER = r"-?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|inf)|nan"
_SUMMARY = re.compile(
    r"(?P<word>.*?):(?P<counts>(?P<size>\d{1,15}) numbers, \d+ NaN, \d+ infinite), "
    rf"norm x(?P<norm>{_NUMBER}), along (?P<along>{_NUMBER}), checksum (?P<right>{_NUMBER}),(?P<up>{_NUMBER}), "
    rf"first (?P<first>(?:{_NUMBER})(?:,(?:{_NUMBER}))*), unit (?P<unit>{_NUMBER})"
)
_OFF_BY = re.compile(r" off by 2\^(-?\d+) ulp$")


def write_numbers(got: Sequence[Array | None], given: Sequence[Array | None]) -> str:
    """Return the numbers of arrays to a few digits, or a summary that compares them with the given arrays."""
    held = [array for array in got if array is not None and array.dtype in DTYPES]
    values = _concatenate(held)
    if len(values) <= WRITTEN:
        digits = 2 if any(array.dtype == "bfloat16" for array in held) else 3
        return ",".join(f"{value:.{digits}g}" for value in values)
    before = _concatenate([array for array in given if array is not None])
    counts = f"{len(values)} numbers, {np.isnan(values).sum()} NaN, {np.isinf(values).sum()} infinite"
    size, direction = _normalise(values)
    ratio, cosine = _compare_vectors(size, direction, before)
    point = complex(direction @ _choose_directions(len(values)))
    first = ",".join(f"{value:.3g}" for value in values[:FIRST])
    return (
        f"{counts}, norm x{ratio:.7g}, along {cosine:.7g}, checksum {point.real:.7f},{point.imag:.7f}, first {first}, "
        f"unit {_find_unit(held, size / math.sqrt(len(values))):.3g}"
    )


def _concatenate(arrays: Sequence[Array]) -> Doubles:
    return np.concatenate([np.zeros(0), *map(read_float64_values, arrays)])


def _compare_vectors(size: float, direction: Doubles, before: Doubles) -> tuple[float, float]:
    """Return the ratio of the norms, and the cosine of the angle. A ratio or a cosine that does not exist is NaN."""
    given_size, other = _normalise(before)
    if not size or not given_size:
        return (math.nan if not given_size else 0.0), math.nan
    with np.errstate(over="ignore", under="ignore"):
        ratio = float(np.divide(size, given_size))
    return ratio, float(direction @ other) if len(direction) == len(other) else math.nan


def _normalise(values: Doubles) -> tuple[float, Doubles]:
    """Return the Euclidean norm, and the values divided by it. No step leaves the range.

    NaN and infinities count as 0.
    """
    finite = np.where(np.isfinite(values), values, 0.0)
    largest = float(np.abs(finite).max(initial=0.0))
    if not largest:
        return 0.0, finite
    # Scale by a power of two first, because the reciprocal of a subnormal number may be infinite.
    scaled = np.ldexp(finite, -math.frexp(largest)[1])
    size = float(np.sqrt(np.sum(scaled * scaled)))
    with np.errstate(over="ignore"):
        return float(np.ldexp(size, math.frexp(largest)[1])), scaled / size


def _choose_directions(count: int) -> npt.NDArray[np.complex128]:
    """Return a direction in the plane for each place. Near places have unrelated directions."""
    places = np.arange(count, dtype=np.uint64)
    # Multiply the squares by 2**32 divided by the golden ratio, and keep the lower 32 bits. Overflow of 64 bits does
    # not change these bits.
    turns = (places * places * np.uint64(2654435769) & np.uint64(2**32 - 1)).astype(np.float64) / 2**32
    directions: npt.NDArray[np.complex128] = np.exp(2j * math.pi * turns)
    return directions


def _find_unit(held: Sequence[Array], typical: float) -> float:
    """Return the spacing of numbers of the coarsest dtype, relative to numbers of a typical size."""
    forms = [FORMATS[dtype] for dtype in {array.dtype for array in held}]
    spacing = 2.0 ** (1 - min(form.precision for form in forms))
    # Subnormal numbers have fewer digits.
    smallest = max(float(form.smallest_subnormal) for form in forms)
    return max(spacing, min(1.0, smallest / typical)) if typical else spacing


def is_same_behaviour(pinned: str, answered: str) -> bool:
    """Return whether an answer is the pinned one. The words must agree, and summaries within their tolerance."""
    if pinned == answered:
        return True
    off_by = [_OFF_BY.search(text) for text in (pinned, answered)]
    if (off_by[0] is None) != (off_by[1] is None):
        return False
    if off_by[0] and off_by[1] and abs(int(off_by[0][1]) - int(off_by[1][1])) > 1:
        return False
    words = [_OFF_BY.sub("", text).split(" then ") for text in (pinned, answered)]
    if len(words[0]) != len(words[1]):
        return False
    # Texts without a summary must be equal.
    return any(map(_SUMMARY.fullmatch, words[0])) and all(map(_is_same_word, *words))


def _is_same_word(pinned: str, answered: str) -> bool:
    one, other = _SUMMARY.fullmatch(pinned), _SUMMARY.fullmatch(answered)
    if one is None or other is None:
        return pinned == answered
    if (one["word"], one["counts"]) != (other["word"], other["counts"]):
        return False
    unit = min(float(one["unit"]), float(other["unit"]))
    # A norm is a sum, so its error grows with the square root of the length. This error scales all numbers alike.
    common = unit * (UNITS + math.sqrt(int(one["size"])))
    first, second = ([float(number) for number in each["first"].split(",")] for each in (one, other))
    if len(first) != len(second):
        return False
    floor = ABSOLUTE * max((abs(number) for number in first if math.isfinite(number)), default=0.0)
    points = [complex(float(each["right"]), float(each["up"])) for each in (one, other)]
    # The cosine and the checksum are divided by the norm, and an error that scales all numbers alike cancels.
    single = UNITS * unit + SEVEN_DIGITS
    return (
        _is_near(float(one["norm"]), float(other["norm"]), common + SEVEN_DIGITS)
        and _is_near(float(one["along"]), float(other["along"]), 0.0, single)
        and cmath.isclose(*points, rel_tol=0.0, abs_tol=single)
        and all(_is_near(a, b, common + THREE_DIGITS, floor) for a, b in zip(first, second, strict=True))
    )


def _is_near(one: float, other: float, relative: float, absolute: float = 0.0) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=relative, abs_tol=absolute)
