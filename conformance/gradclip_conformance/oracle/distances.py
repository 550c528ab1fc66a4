"""Measure the distances, in ulp, of whole arrays from the expected ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from gradclip_adapters.contract import Array
from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.statuses import Status

from .arrays import decode
from .formats import (
    FORMATS,
    Format,
    compute_power_of_two,
    convert_to_dtype,
    decode_doubles,
    fits_long_double,
    has_long_doubles,
    measure_distance,
    round_quotient,
    round_to_long_double,
)
from .model import ExpectedArray, Prediction
from .question import Question, find_narrowest

Doubles = npt.NDArray[np.float64]

#: Arrays of more elements than this, in formats of at most 24 bits, are measured in float64.
MANY = 64
#: Arrays of more than `SHORT` elements in float64 are measured in long doubles. The error of a distance is smaller than
#: this, in ulp. The largest distances are then measured exactly.
WIDE_ERROR = 2.0**-9
#: A distance in float64 that is nearer than this to a multiple of 1/2 ulp is measured exactly in arrays of at most
#: `SHORT` elements, because it may lie at a bound. The error of a distance is smaller.
NEAR_HALF, SHORT = 2.0**-24, 4096

#: The number of products that are measured at once.
BLOCK = 1 << 16


def measure_largest_distance(got: bytes, expected: ExpectedArray, dtype: str) -> tuple[float, int]:
    """Return the largest distance and its first place, or (0.0, -1) for an empty array."""
    every = measure_distances(got, expected, dtype)
    if not len(every):
        return 0.0, -1
    place = int(every.argmax())
    return float(every[place]), place


def measure_distances(got: bytes, expected: ExpectedArray, dtype: str) -> Doubles:
    """Return the distance of each element from the expected one, in ulp at the rounded expected element.

    Signs of zeros do not count. An infinity has the distance 0 if the expected element rounds to it. A NaN has the
    distance 0 if a NaN is expected. Any other distance between a finite and a nonfinite number is infinite.

    The distance is exact, except that it is rounded to float64. Arrays of more than 64 elements in a format of `p <=
    24` bits are an exception: there the expected element is the product of two float64 (three roundings). So the
    distance is wrong by at most `3 * 2**(p - 53)` ulp, 6e-9 at p = 24, and by 0 if the coefficient is 1 or a power of
    two. If that error could give the wrong binade, the element is measured exactly. So it is in arrays of at most 4096
    elements if the distance could be a multiple of 1/2 ulp, as many bounds are. Of more than 4096 elements of float64,
    only the largest distance is exact, and the others are wrong by at most 2**-9 ulp.

    Raises
    ------
    ValueError
        If the two have different lengths.
    """
    form = FORMATS[dtype]
    if 8 * len(got) != form.width * len(expected.values):
        message = (
            f"{len(got)} bytes of {dtype} were to be compared with {len(expected.values)} expected elements; "
            "compare the shapes before the values"
        )
        raise ValueError(message)
    if len(expected.values) > MANY and form.precision <= 24:
        every = _measure_in_doubles(got, expected, form)
    elif len(expected.values) > SHORT and has_long_doubles() and fits_long_double(expected.factor):
        every = _measure_in_long_doubles(got, expected, form)
    else:
        every = _measure_one_by_one(got, expected, form)
    if special := expected.values.special:
        found, wanted = decode_doubles(got, dtype)[list(special)], np.array(list(special.values()))
        every[list(special)] = np.where((found == wanted) | (np.isnan(found) & np.isnan(wanted)), 0.0, np.inf)
    return every


def measure_distances_in_ulp_of(other: ExpectedArray, got: bytes, expected: ExpectedArray, dtype: str) -> Doubles:
    """Return the distances as :func:`measure_distances` does, but in ulp at the elements of `other`.

    This makes the distances of one result from two expectations comparable, even if these lie in different binades.
    """
    shift = _find_ulp_exponents(expected, dtype) - _find_ulp_exponents(other, dtype)
    every: Doubles = np.ldexp(measure_distances(got, expected, dtype), shift)
    return every


def _find_ulp_exponents(expected: ExpectedArray, dtype: str) -> npt.NDArray[np.int64]:
    """Return the exponent of the ulp at each expected element, rounded to the dtype."""
    form, count = FORMATS[dtype], len(expected.values)
    units, places = np.zeros(count, dtype=np.int64), np.arange(count)
    if count > MANY and has_long_doubles() and fits_long_double(expected.factor):
        magnitudes = np.abs(expected.values.doubles * round_to_long_double(expected.factor))
        mantissas, exponents = np.frexp(magnitudes)
        exponents[mantissas == 0] = form.minimum_exponent
        units = np.maximum(exponents - 1, form.minimum_exponent) - form.precision + 1
        # From the tie on, an element rounds up to the next binade. The error of a mantissa is smaller than 2**-63.
        places = np.flatnonzero(mantissas > _compute_tie(form) - 2.0**-63)
    scale = expected.factor * compute_power_of_two(expected.values.exponent)
    for place in places.tolist():
        exact = abs(scale * expected.values.integers[place])
        units[place] = round_quotient(exact.numerator, exact.denominator, form)[1]
    return np.minimum(units, form.find_ulp_exponent(form.maximum_exponent))


def _measure_one_by_one(data: bytes, expected: ExpectedArray, form: Format) -> Doubles:
    """Return the distances, in integers: both sides are multiples of `2**lowest / denominator`."""
    got, values = decode(data, form.name), expected.values
    numerator, denominator = expected.factor.as_integer_ratio()
    lowest = min(got.exponent, values.exponent)
    got_scale = denominator << (got.exponent - lowest)
    scale = numerator << (values.exponent - lowest)
    # The power of two goes to one side of the quotient, so that both sides are integers.
    up, down = 1 << max(lowest, 0), denominator << max(-lowest, 0)
    result = []
    # Elements often repeat.
    known: dict[tuple[int, int], float] = {}
    for place, pair in enumerate(zip(got.integers, values.integers, strict=True)):
        if pair in known and place not in got.special:
            result.append(known[pair])
            continue
        target = pair[1] * scale
        _, unit = round_quotient(abs(target) * up, down, form)
        if place in got.special:
            exact = Fraction(target * up, down)
            infinity = form.infinity_bits | (form.sign_bit if got.negative[place] else 0)
            result.append(math.inf if math.isnan(got.special[place]) else measure_distance(infinity, exact, form))
            continue
        unit = form.find_ulp_exponent(unit) - lowest
        error = abs(pair[0] * got_scale - target)
        known[pair] = _divide(error << max(-unit, 0), denominator << max(unit, 0))
        result.append(known[pair])
    return np.array(result, dtype=np.float64)


def _divide(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf


def _measure_in_doubles(got: bytes, expected: ExpectedArray, form: Format) -> Doubles:
    """Return the distances in float64. See :func:`measure_distances` for their error."""
    given, factor = expected.values.doubles, float(expected.factor)
    every = measure_products(given, decode_doubles(got, form.name), factor, form)
    doubtful = _are_near_tie(np.abs(given * factor), form, 2.0**-50)
    if len(every) <= SHORT and not expected.is_unchanged:
        halves = 2 * every
        with np.errstate(invalid="ignore"):
            doubtful |= (halves > 0.5) & (np.abs(halves - np.rint(halves)) < 2 * NEAR_HALF)
    if doubtful.any():
        every[doubtful] = _measure_some(got, expected, form, doubtful)
    return every


def _measure_in_long_doubles(got: bytes, expected: ExpectedArray, form: Format) -> Doubles:
    """Return the distances in long doubles, the largest ones exactly.

    The factor and each product have a relative error of at most `2**-63`. So a distance has an error of less than
    `2**-9` ulp of float64.
    """
    given, factor = expected.values.doubles, round_to_long_double(expected.factor)
    every = measure_products(given, decode_doubles(got, form.name), factor, form)
    if expected.is_unchanged:
        return every
    doubtful = _are_near_tie(np.abs(given * factor), form, 2.0**-60)
    finite = np.isfinite(every)
    doubtful |= finite & (every >= every.max(where=finite, initial=0.0) - 2 * WIDE_ERROR)
    every[doubtful] = _measure_some(got, expected, form, doubtful)
    return every


def _measure_some(got: bytes, expected: ExpectedArray, form: Format, chosen: npt.NDArray[np.bool_]) -> Doubles:
    bits = np.frombuffer(got, dtype=f"<u{form.width // 8}")
    some = expected.take_places(np.flatnonzero(chosen).tolist())
    return _measure_one_by_one(bits[chosen].tobytes(), some, form)


def _are_near_tie(magnitudes: npt.NDArray[Any], form: Format, distance: float) -> npt.NDArray[np.bool_]:
    """Return whether each mantissa is near the tie that rounds up to the next binade. There, the ulp may be wrong."""
    mantissas, _ = np.frexp(magnitudes)
    near: npt.NDArray[np.bool_] = np.abs(mantissas - mantissas.dtype.type(_compute_tie(form))) < distance
    return near


def _compute_tie(form: Format) -> Any:
    """Return the mantissa, in [1/2, 1), that lies in the middle of 1 and the number of the format below it."""
    return 1 - np.longdouble(2) ** -(form.precision + 1)


def measure_products(given: Doubles, results: Doubles, factor: Any, form: Format, flushes: bool = False) -> Doubles:
    """Return the distances in ulp of results from the given elements times a factor."""
    if np.all(factor == 1) and np.array_equal(given, results):
        return np.zeros(given.size)
    factors, found = np.asarray(factor), np.empty(given.size)
    # In blocks, because the intermediate results take ten times as much memory as the elements.
    for start in range(0, given.size, BLOCK):
        part = slice(start, start + BLOCK)
        chosen = factors[part] if factors.ndim else factors
        found[part] = _measure_block(given[part], results[part], chosen, form, flushes)
    return found


def _measure_block(given: Doubles, results: Doubles, factors: Any, form: Format, flushes: bool) -> Doubles:
    # In float64, a product has an error of 2**-28 ulp of float32.
    number = np.longdouble if form.precision > 24 else np.float64
    exact = given.astype(number, copy=False) * factors.astype(number)
    with np.errstate(invalid="ignore", over="ignore"):
        nearest: Doubles = exact.astype(np.float64, copy=False)
        spacing = measure_spacing(nearest, form)
        # Subtracting numbers that are near each other is exact. Divide first: float64 cannot hold the difference of
        # two of its subnormal numbers.
        gaps = np.abs(results.astype(number, copy=False) - exact)
        every: Doubles = (gaps / spacing).astype(np.float64, copy=False)
        finite = np.isfinite(results)
        if not finite.all():
            # A result beyond the range rounds to infinity.
            beyond = np.isinf(results) & (np.abs(exact) >= np.longdouble(float(form.largest)) + spacing / 2)
            every[~finite] = np.inf
            every[beyond & (np.sign(results) == np.sign(nearest))] = 0.0
    if flushes:
        smallest = float(form.smallest_normal)
        every[(np.abs(nearest) < smallest) & (np.abs(results) < smallest)] = 0.0
    return every


#: The bits of a float64 that hold its exponent.
EXPONENT = np.uint64(0x7FF << 52)


def measure_spacing(values: Doubles, form: Format) -> Doubles:
    """Return the ulp at each value rounded to the format."""
    # Adding half an ulp raises the exponent if the value rounds up to the next binade.
    half = np.uint64((1 << 52) >> form.precision)
    binades = ((values.view(np.uint64) + half) & EXPONENT).view(np.float64)
    np.clip(binades, 2.0**form.minimum_exponent, 2.0**form.maximum_exponent, out=binades)
    binades *= 2.0 ** (1 - form.precision)
    return binades


#: The grades, from the best to the worst.
GRADES = (Status.PASS, Status.QUALITY, Status.FAIL)


@dataclass(frozen=True)
class Measured:
    """The worst element of some gradients, and its place."""

    #: `pass` within the budget, `quality` within the error bound, `fail` beyond both.
    grade: Status = Status.PASS
    ulp: float = 0.0
    tensor: int = -1
    element: int = -1
    budget: float = 0.0
    bound: float = 0.0
    #: Whether a gradient that must stay unchanged was changed, even slightly.
    touched: bool = False

    @property
    def rank(self) -> tuple[int, float]:
        """A key that sorts the worst grade and the largest distance last."""
        return GRADES.index(self.grade), self.ulp

    def write_sentence(self, operation: str) -> str:
        """Return a sentence with the distance of the worst element from the expected one."""
        where = f"Element {self.element} of gradient {self.tensor}"
        if math.isinf(self.ulp):
            expected = "the input, which must come back unchanged," if self.touched else "the exact result"
            return f"{where} is NaN or infinite, and {expected} is neither."
        if self.touched:
            return f"{where} is {self.ulp:.3g} ulp from the input, which must come back unchanged."
        limit = f"the budget is {self.budget:.3g}" + (
            f", the error bound {self.bound:.3g}" if self.bound > self.budget else ""
        )
        return f"{where} is {self.ulp:.3g} ulp from the exact result of {operation}; {limit}."


def measure(
    case: Question,
    prediction: Prediction,
    results: Sequence[Array | None],
    indices: Sequence[int],
    flushes_subnormals: bool = False,
) -> Measured:
    """Return the worst element of these gradients, among those for which a finite result is expected.

    For an entry point that flushes subnormal numbers, zeros and subnormal numbers count as the same.
    """
    # With several dtypes, the common norm may have been rounded to the coarsest one.
    coarsest = find_narrowest(case) if OPERATIONS[case.operation].is_global else None
    found = [
        (_measure_one(case, prediction, i, got, coarsest or given.dtype, flushes_subnormals), i)
        for i in indices
        if (got := results[i]) is not None
        and (given := case.gradients[i].array) is not None
        and prediction.gradients[i] is not None
    ]
    if not found:
        return Measured()
    worst, index = max(found, key=lambda pair: pair[0].rank)
    return worst if worst.tensor == index else replace(worst, tensor=index)


def _measure_one(
    case: Question, prediction: Prediction, index: int, got: Array, coarsest: str, flushes_subnormals: bool
) -> Measured:
    gradient = case.gradients[index]
    key = (gradient.array, gradient.parameter, gradient.need_clip, got, coarsest, flushes_subnormals)
    if key not in prediction.measured:
        assert gradient.array is not None
        found = _measure_new(prediction, index, got, gradient.array, coarsest, flushes_subnormals)
        # The expected elements of a clip by value differ from the given ones, whatever their factor is.
        is_by_norm = OPERATIONS[case.operation].is_by_norm
        prediction.measured[key] = found if is_by_norm else replace(found, touched=False)
    known: Measured = prediction.measured[key]
    return known


def _measure_new(
    prediction: Prediction, index: int, got: Array, given: Array, coarsest: str, flushes_subnormals: bool
) -> Measured:
    expected, errors = prediction.gradients[index], prediction.errors[index]
    assert expected is not None
    data = convert_to_dtype(got, given.dtype)
    every = measure_distances(data, expected, given.dtype)
    if flushes_subnormals:
        every[_are_both_tiny(data, expected, given.dtype)] = 0.0
    place = int(every.argmax()) if len(every) else -1
    distance = float(every[place]) if len(every) else 0.0
    coarser = max(1.0, 2.0 ** (FORMATS[given.dtype].precision - FORMATS[coarsest].precision))
    touched = expected.is_unchanged and not prediction.near[index] and distance > 0
    bound = errors.clip_bound * coarser
    grade = Status.FAIL if touched or distance > bound else Status.PASS
    if grade == Status.PASS and distance > errors.clip_budget:
        grade = Status.QUALITY
    return Measured(grade, distance, index, place, errors.clip_budget, bound, touched)


def _are_both_tiny(got: bytes, expected: ExpectedArray, dtype: str) -> npt.NDArray[np.bool_]:
    """Return, for each element, whether the result and the exact element are both below the normal numbers."""
    smallest = FORMATS[dtype].smallest_normal
    exact = np.array([abs(fraction) < smallest for fraction in expected.list_fractions()], dtype=np.bool_)
    both: npt.NDArray[np.bool_] = exact & (np.abs(decode_doubles(got, dtype)) < float(smallest))
    return both
