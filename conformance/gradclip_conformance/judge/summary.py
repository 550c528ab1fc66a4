"""Write down the numbers of an answer for a pin, and compare what is pinned with what is answered now.

Up to eight numbers are written out to three digits, those of bfloat16 to two. Of more there is a summary, which the
rounding of another machine does not change beyond its tolerance: how many numbers are NaN or infinite, the norm of the
others as a multiple of the norm of what was passed, the cosine of the angle between the two, and the first numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gradclip_adapters.contract import DTYPES, Array

from ..oracle.formats import float64_values

__all__ = ["same_behaviour", "write_numbers"]

Doubles = npt.NDArray[np.float64]

#: More numbers than this are summarised.
WRITTEN = 8
#: So many of them are written out.
FIRST = 3

#: How far a summary may be from the pinned one: relative to a number, and of a cosine. Two answers that differ by the
#: rounding of a half-precision format are nearer, and three digits are written of each number.
RELATIVE = 0.02
#: Relative to the largest of the first numbers: zeros may become the smallest number, or the other way about.
ABSOLUTE = 2.0**-20

_SUMMARY = re.compile(
    r"(?P<word>.*?):(?P<counts>\d+ numbers, \d+ NaN, \d+ infinite), norm x(?P<norm>\S+), along (?P<along>\S+), "
    r"first (?P<first>\S+)"
)
_OFF_BY = re.compile(r" off by 2\^(-?\d+) ulp$")


def write_numbers(got: Sequence[Array | None], given: Sequence[Array | None]) -> str:
    """Return the numbers of arrays to a few digits, or a summary beside the arrays that were passed."""
    held = [array for array in got if array is not None and array.dtype in DTYPES]
    values = _joined(held)
    if len(values) <= WRITTEN:
        digits = 2 if any(array.dtype == "bfloat16" for array in held) else 3
        return ",".join(f"{value:.{digits}g}" for value in values)
    before = _joined([array for array in given if array is not None])
    counts = f"{len(values)} numbers, {np.isnan(values).sum()} NaN, {np.isinf(values).sum()} infinite"
    ratio, cosine = _compare_vectors(values, before)
    first = ",".join(f"{value:.3g}" for value in values[:FIRST])
    return f"{counts}, norm x{ratio:.3g}, along {cosine:.3g}, first {first}"


def _joined(arrays: Sequence[Array]) -> Doubles:
    return np.concatenate([np.zeros(0), *map(float64_values, arrays)])


def _compare_vectors(values: Doubles, before: Doubles) -> tuple[float, float]:
    """Return the ratio of the norms, and the cosine; NaN where there is none. Elements that are not finite are 0."""
    size, one = _normalise(values)
    given_size, other = _normalise(before)
    if not size or not given_size:
        return (math.nan if not given_size else 0.0), math.nan
    with np.errstate(over="ignore", under="ignore"):
        ratio = float(np.divide(size, given_size))
    return ratio, float(one @ other) if len(one) == len(other) else math.nan


def _normalise(values: Doubles) -> tuple[float, Doubles]:
    """Return the Euclidean norm, and the values divided by it, without leaving the range on the way."""
    finite = np.where(np.isfinite(values), values, 0.0)
    largest = float(np.abs(finite).max(initial=0.0))
    if not largest:
        return 0.0, finite
    # Scaled by a power of two first, because the reciprocal of a subnormal number may be infinite.
    scaled = np.ldexp(finite, -math.frexp(largest)[1])
    size = float(np.sqrt(np.sum(scaled * scaled)))
    with np.errstate(over="ignore"):
        return float(np.ldexp(size, math.frexp(largest)[1])), scaled / size


def same_behaviour(pinned: str, answered: str) -> bool:
    """Return whether an answer is the pinned one: the same words, and summaries within their tolerance."""
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
    # Without a summary nothing may differ.
    return any(map(_SUMMARY.fullmatch, words[0])) and all(map(_same_word, *words))


def _same_word(pinned: str, answered: str) -> bool:
    one, other = _SUMMARY.fullmatch(pinned), _SUMMARY.fullmatch(answered)
    if one is None or other is None:
        return pinned == answered
    if (one["word"], one["counts"]) != (other["word"], other["counts"]):
        return False
    first, second = ([float(number) for number in each["first"].split(",")] for each in (one, other))
    floor = ABSOLUTE * max((abs(number) for number in first if math.isfinite(number)), default=0.0)
    return (
        _near(float(one["norm"]), float(other["norm"]))
        and _near(float(one["along"]), float(other["along"]), RELATIVE)
        and all(_near(a, b, floor) for a, b in zip(first, second, strict=True))
    )


def _near(one: float, other: float, floor: float = 0.0) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=RELATIVE, abs_tol=floor)
