r"""Measure all results of a call at once, in long doubles. This is quick for thousands of elements.

The exact oracles use an integer for each element. Here one array holds the elements of all tensors. A long double has a
significand of 64 bits and a wide range: it holds each element exactly, and no square or sum of squares leaves its
range.

The relative errors are small. Let :math:`v = 2^{-64}`. The sum of the powers of a tensor has an error of less than
:math:`2^{-59}`, because NumPy adds in pairs above blocks of 128. The norm and the coefficient have an error of less
than :math:`2^{-58}`, even if a parameter's norm multiplies the threshold, and a product adds `v`. So a distance has an
error of less than :math:`2^{-58} 2^{53} = 1/32` ulp of float64, and a negligible error for narrower formats.
:data:`DOUBT` allows for that.

If the processor has no such long doubles, `has_long_doubles` returns False, and rows are `unsupported`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from gradclip_adapters.contract import Array
from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.statuses import Status

from .asked import Asked
from .bounds import NOTHING
from .distances import GRADES, Measured, measure_products, measure_spacing
from .formats import (
    FORMATS,
    Format,
    convert_to_dtype,
    decode_doubles,
    read_all,
    read_float64_values,
)
from .formula import PLAIN, Formula, shows_nonfinite
from .groups import Group, make_group
from .model import ErrorBounds
from .question import Question, get_bounds, list_norm_groups

Doubles = npt.NDArray[np.float64]

#: The largest error of a measured distance, in ulp.
DOUBT = 1 / 32

#: The largest exponent for which a power is computed by multiplications.
SMALL_POWERS = 4


@dataclass(frozen=True)
class _Sized:
    """A group with its norm, its threshold and its error bounds, in long doubles."""

    group: Group
    norm: Any
    threshold: Any
    errors: ErrorBounds


@dataclass(frozen=True)
class WholeCall:
    """A call, with quantities that several measurements share."""

    question: Question
    _values: dict[int, Doubles] = field(default_factory=dict, compare=False, repr=False)
    #: A cache of measurements, because several entry points of a framework often give the same bits.
    _known: dict[tuple[object, ...], Measured] = field(default_factory=dict, compare=False, repr=False)

    def read_values(self, index: int) -> Doubles:
        """Return the elements of a gradient."""
        if not self._values:
            self._values.update(_read([g.array for g in self.question.gradients]))
        return self._values[index]

    @cached_property
    def groups(self) -> tuple[_Sized, ...]:
        """The norms of the included gradients, in the order of their groups."""
        chosen = [make_group(self.question, members) for members in list_norm_groups(self.question) if members]
        powers = self._sum_powers([i for group in chosen for i in group.members], self.question.norm_type)
        # Many small gradients are equal, so reuse their norms.
        known: dict[tuple[Any, ...], tuple[Any, Any, ErrorBounds]] = {}
        found = []
        for group in chosen:
            terms = np.array([powers[i] for i in group.members], dtype=np.longdouble)
            total = terms.max() if self.question.norm_type == math.inf else terms.sum()
            # Count only elements that are not zero, because adding a zero is exact.
            elements = sum(int(np.count_nonzero(self.read_values(i))) for i in group.members)
            key = (total, elements, group.form.name, group.divisor, group.parameter, group.share)
            if key not in known:
                known[key] = _size(group, total, elements)
            found.append(_Sized(group, *known[key]))
        return tuple(found)

    def find_norm(self) -> tuple[Fraction | float, ErrorBounds]:
        """Return the norm of a call whose gradients share one, and its error bounds. NaN and infinity are floats."""
        if not self.groups:
            return Fraction(0), NOTHING
        norm = self.groups[0].norm
        return Fraction(*norm.as_integer_ratio()) if np.isfinite(norm) else float(norm), self.groups[0].errors

    def _find_dtype(self, index: int) -> str:
        array = self.question.gradients[index].array
        assert array is not None
        return array.dtype

    def _sum_powers(self, indices: Sequence[int], order: float) -> dict[int, Any]:
        """Return for each gradient the sum of its powers, or its largest magnitude for the order infinity."""
        found: dict[int, Any] = dict.fromkeys(indices, np.longdouble(0))
        filled = [i for i in indices if self.read_values(i).size]
        if not filled:
            return found
        every = np.abs(np.concatenate([self.read_values(i) for i in filled]))
        # Squares of numbers with at most 24 bits are exact in float64. Other powers are far more accurate in float64
        # than these narrow formats need.
        wide = any(self._find_dtype(i) == "float64" for i in filled)
        every = every.astype(np.longdouble) if wide else every
        starts = [0, *accumulate(self.read_values(i).size for i in filled[:-1])]
        with np.errstate(invalid="ignore"):
            if order == math.inf:
                sums = np.maximum.reduceat(every, starts)
            else:
                sums = np.add.reduceat(_raise_to_power(every, order), starts)
        found.update(zip(filled, sums, strict=True))
        return found

    def measure(
        self, results: Sequence[Array | None], formula: Formula = PLAIN, *, exact: bool = False, flushes: bool = False
    ) -> Measured:
        """Return the included element that is farthest from the formula. Skip groups whose norm is not finite.

        `exact` says that no order of the sum rounds the norm, so that only one side of the threshold is right.
        """
        key = (tuple(results), formula, exact, flushes)
        if key not in self._known:
            self._known[key] = self._measure(results, formula, exact=exact, flushes=flushes)
        return self._known[key]

    def _measure(self, results: Sequence[Array | None], formula: Formula, *, exact: bool, flushes: bool) -> Measured:
        worst = Measured()
        got = self._read_results(results)
        # In a sum of examples, the NaN of one example may stand at the elements of all others.
        sums = OPERATIONS[self.question.operation].sums_examples
        spoilt = sums and not all(np.isfinite(group.norm) for group in self.groups)
        by_dtype: dict[str, list[tuple[int, _Sized, Any, bool]]] = {}
        known: dict[tuple[Any, Any, ErrorBounds], tuple[Any, bool]] = {}
        for sized in self.groups:
            if np.isfinite(sized.norm):
                key = (sized.norm, sized.threshold, sized.errors)
                if key not in known:
                    known[key] = _compute_factor(sized, formula, exact=exact)
                for i in sized.group.members:
                    by_dtype.setdefault(self._find_dtype(i), []).append((i, sized, *known[key]))
        for dtype, members in by_dtype.items():
            filled = [each for each in members if self.read_values(each[0]).size]
            if spoilt:
                filled = [each for each in filled if not np.isnan(got[each[0]]).any()]
            worst = max(worst, self._measure_some(filled, FORMATS[dtype], got, flushes), key=lambda one: one.rank)
        return worst

    def _read_results(self, results: Sequence[Array | None]) -> dict[int, Doubles]:
        """Return the elements of results, in the dtypes of their gradients."""
        pairs = zip(self.question.gradients, results, strict=True)
        return _read([None if g.array is None else _convert_to_dtype(result, g.array) for g, result in pairs])

    def _measure_some(
        self, members: Sequence[tuple[int, _Sized, Any, bool]], form: Format, got: dict[int, Doubles], flushes: bool
    ) -> Measured:
        """Measure gradients of one dtype.

        `members` holds a tuple for each gradient: its index, its group, its coefficient, and whether the norm is so
        near the threshold that either side is right.
        """
        if not members:
            return Measured()
        sizes = [self.read_values(i).size for i, *_ in members]
        given = np.concatenate([self.read_values(i) for i, *_ in members])
        results = np.concatenate([got[i] for i, *_ in members])
        factors = np.array([factor for _, _, factor, _ in members], dtype=np.longdouble)
        same = (factors == factors[0]).all()
        every = measure_products(given, results, factors[0] if same else np.repeat(factors, sizes), form, flushes)
        starts = np.array([0, *accumulate(sizes[:-1])])
        largest = np.maximum.reduceat(every, starts)
        largest[factors != 1] = np.maximum(largest[factors != 1] - DOUBT, 0.0)
        open_sides = np.array([near for *_, near in members])
        touched = (factors == 1) & ~open_sides & (largest > 0)
        coarser = np.array([max(1.0, 2.0 ** (form.precision - sized.group.form.precision)) for _, sized, *_ in members])
        bounds = np.array([sized.errors.clip_bound for _, sized, *_ in members]) * coarser
        budgets = np.array([sized.errors.clip_budget for _, sized, *_ in members])
        grades = np.where(touched | (largest > bounds), 2, np.where(largest > budgets, 1, 0))
        worst = max(range(len(members)), key=lambda i: (grades[i], largest[i]))
        place = int(every[starts[worst] : starts[worst] + sizes[worst]].argmax())
        return Measured(
            GRADES[int(grades[worst])],
            float(largest[worst]),
            members[worst][0],
            place,
            float(budgets[worst]),
            float(bounds[worst]),
            bool(touched[worst]),
        )

    def measure_bounds(self, results: Sequence[Array | None], *, keeps_zeros: bool, flushes: bool = False) -> Measured:
        """Return the first element that a clip by value gets wrong.

        With `keeps_zeros`, signs of zeros must be kept. With `flushes`, subnormal numbers count as zeros.
        """
        key = (tuple(results), keeps_zeros, flushes)
        if key not in self._known:
            self._known[key] = self._measure_bounds(results, keeps_zeros=keeps_zeros, flushes=flushes)
        return self._known[key]

    def _measure_bounds(self, results: Sequence[Array | None], *, keeps_zeros: bool, flushes: bool) -> Measured:
        low, high = get_bounds(self.question)
        got, included = self._read_results(results), [i for i in self.question.included if self.read_values(i).size]
        if not included:
            return Measured()
        # Check all gradients at once, because most are right. The loop only looks for the wrong element.
        given, after = (np.concatenate([values[i] for i in included]) for values in (self._values, got))
        if _are_limited(given, after, low, high, keeps_zeros):
            return Measured()
        for i in included:
            given, after = self.read_values(i), got[i]
            expected = np.minimum(np.maximum(given, low), high)
            right = (after == expected) | (np.isnan(after) & np.isnan(expected))
            if keeps_zeros and low < 0 < high:
                right &= (expected != 0) | (np.signbit(after) == np.signbit(given))
            array = self.question.gradients[i].array
            assert array is not None
            if flushes:
                smallest = float(FORMATS[array.dtype].smallest_normal)
                right |= (np.abs(expected) < smallest) & (np.abs(after) < smallest)
            if not right.all():
                place = int(right.argmin())
                with np.errstate(invalid="ignore", over="ignore"):
                    gap = abs(after[place] - expected[place])
                    distance = float(gap / measure_spacing(expected[place : place + 1], FORMATS[array.dtype])[0])
                return Measured(Status.FAIL, math.inf if math.isnan(distance) else distance, i, place)
        return Measured()

    def hides_norm(self, results: Sequence[Array | None]) -> bool:
        """Return whether the results of a group do not show that its norm is not finite."""
        for sized in self.groups:
            if np.isfinite(sized.norm):
                continue
            given = np.concatenate([self.read_values(i) for i in sized.group.members])
            got = (results[i] for i in sized.group.members)
            after = read_all(array for array in got if array is not None)
            if OPERATIONS[self.question.operation].sums_examples:
                # The other elements of a sum belong to other examples.
                given, after = given[given != 0], after[given != 0]
            if not shows_nonfinite([given], [after], [sized.norm]):
                return True
        return False


def make_whole_call(question: Question) -> WholeCall:
    """Return the call. Cache it, because the next cell often makes the same call to another entry point."""
    return _make_whole_call(Asked(question))


@lru_cache(maxsize=4)
def _make_whole_call(asked: Asked) -> WholeCall:
    return WholeCall(asked.question)


def _are_limited(given: Doubles, after: Doubles, low: float, high: float, keeps_zeros: bool) -> bool:
    """Return whether a clip by value gives all these elements."""
    expected = np.minimum(np.maximum(given, low), high)
    if keeps_zeros and low < 0 < high:
        # Compare bits, so that the signs of zeros count. A NaN may have any bits.
        same = after.view(np.uint64) == expected.view(np.uint64)
        return bool((same | (np.isnan(after) & np.isnan(expected))).all())
    return bool(np.array_equal(after, expected, equal_nan=True))


def _size(group: Group, total: Any, elements: int) -> tuple[Any, Any, ErrorBounds]:
    """Return the norm, the threshold and the error bounds of a group, from the sum of its powers."""
    order = group.question.norm_type
    root = total if order in (1, math.inf) else np.sqrt(total) if order == 2 else total ** (1 / np.longdouble(order))
    norm = root / np.sqrt(np.longdouble(group.divisor))
    with np.errstate(over="ignore", invalid="ignore"):
        size, threshold = float(norm), np.longdouble(group.factor) * _compute_multiple(group)
    return norm, threshold, group.bound_errors(elements, size)


def _compute_multiple(group: Group) -> Any:
    """Return the number that multiplies the threshold, or NaN if a weight is not finite (see `Group.multiple`)."""
    if group.share is not None:
        return np.sqrt(np.longdouble(group.share.numerator) / np.longdouble(group.share.denominator))
    if group.parameter is None:
        return np.longdouble(1)
    values = read_float64_values(group.parameter).astype(np.longdouble)
    norm = np.sqrt((values * values).sum())
    least = np.longdouble(group.question.options.get("eps", 0.0))
    return np.maximum(norm, least) if np.isfinite(norm) else np.longdouble(math.nan)


def _compute_factor(sized: _Sized, formula: Formula, *, exact: bool) -> tuple[Any, bool]:
    """Return the coefficient, and whether rounding of the norm decides which side of the threshold is right."""
    threshold = sized.threshold
    norm, small = sized.norm, np.longdouble(formula.eps)
    shift = small if formula.kind == "coefficient" else np.longdouble(0)
    if np.isinf(threshold):
        whole = formula.kind != "min-numerator" or norm + small == 0
        return (np.longdouble(1) if whole else norm / (norm + small)), False
    limit = threshold - shift
    above = norm > limit
    near = False
    if not (exact and shift == 0):
        spacing = float(measure_spacing(np.array([float(abs(limit))]), sized.group.form)[0])
        near = bool(abs(norm - limit) <= spacing * (sized.errors.norm_bound + DOUBT))
    if formula.kind in ("plain", "coefficient"):
        top, bottom = (threshold, norm + shift) if above else (np.longdouble(1), np.longdouble(1))
    elif formula.kind == "max-denominator":
        top, bottom = threshold, (norm if above else threshold) + small
    else:
        top, bottom = (threshold if above else norm), norm + small
    return (top / bottom if bottom else np.longdouble(1)), near


def _raise_to_power(values: Any, order: float) -> Any:
    """Return powers of magnitudes. Use products and roots for whole and half orders, as these round less."""
    whole, rest = divmod(order, 1.0)
    if rest not in (0.0, 0.5) or whole > SMALL_POWERS:
        return values ** values.dtype.type(order)
    factors = [values] * int(whole) + ([np.sqrt(values)] if rest else [])
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    return product


def _convert_to_dtype(result: Array | None, given: Array) -> Array | None:
    if result is None or result.dtype == given.dtype:
        return result
    return Array(given.dtype, result.shape, convert_to_dtype(result, given.dtype))


def _read(arrays: Sequence[Array | None]) -> dict[int, Doubles]:
    """Return the elements of each array. Decode all arrays of a dtype together, to save time."""
    found: dict[int, Doubles] = {}
    by_dtype: dict[str, list[int]] = {}
    for i, array in enumerate(arrays):
        if array is not None:
            by_dtype.setdefault(array.dtype, []).append(i)
    for dtype, members in by_dtype.items():
        contents = [array.data for i in members if (array := arrays[i]) is not None]
        every = decode_doubles(b"".join(contents), dtype)
        width, start = FORMATS[dtype].width // 8, 0
        for i, data in zip(members, contents, strict=True):
            stop = start + len(data) // width
            found[i] = every[start:stop]
            start = stop
    return found
