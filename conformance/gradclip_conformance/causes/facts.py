"""Compute the exact norms, factors and results of a call that clips by norm.

The models of wrong answers compare these.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gradclip_adapters.contract import DTYPES, Array
from gradclip_adapters.operations import OPERATIONS, Operation

from ..cases.model import Case
from ..oracle import groups, integers
from ..oracle.arrays import decode
from ..oracle.distances import measure_distances, measure_products
from ..oracle.formats import (
    FORMATS,
    Format,
    compute_power_of_two,
    convert_to_dtype,
    decode_doubles,
    fits_long_double,
    has_long_doubles,
    read_float64_values,
    round_all,
    round_to_long_double,
)
from ..oracle.formula import PLAIN, Formula, list_nonfinite_norms, shows_nonfinite
from ..oracle.long_doubles import DOUBT
from ..oracle.model import DyadicArray, Enclosure, ErrorBounds, ExpectedArray, Prediction
from ..oracle.predict import predict
from ..oracle.question import count_divisor, list_norm_groups

Doubles = npt.NDArray[np.float64]

#: Above this many elements, only models that need no further exact sum are tried, because an exact sum takes long.
MANY = 4096

#: The error of results that share a known factor, in ulp. Each of two results that are compared has the roundings of a
#: quotient and of a product, and a relative error of 2**-precision is less than one ulp (`oracle/bounds.py`).
SCALING_ERROR = 4.0  # measured: 2 and 8 name the same causes

#: The error of a Euclidean norm of n = 25 elements, in units of 2**-precision: (n + 5) / 2 + 1 (`oracle/bounds.py`).
#: Wrong norms are compared with answers within this error: long calls cannot tell such norms from a long sum.
NORM_ERROR = 16  # measured: 8 and 32 name the same causes

#: The largest number of float64.
LARGEST = Fraction(sys.float_info.max)


class Kind(StrEnum):
    """The kind of result of one gradient."""

    SAME = "same"
    ZERO = "zero"
    NAN = "nan"
    #: Finite numbers.
    FINITE = "finite"
    #: Some finite elements became NaN or infinite.
    PARTLY = "partly"


@dataclass
class Tensor:
    """One included gradient (it counts in the norm) and its result."""

    index: int
    given: Array
    got: Array
    exact: DyadicArray
    #: The earlier answers of `is_scaled_by`, by factor and bound.
    known: dict[tuple[Fraction, float], bool] = field(default_factory=dict)

    def take_magnitudes(self) -> Tensor:
        """Return the tensor of the magnitudes of the elements, with the same results."""
        form = self.form
        given = Array(self.given.dtype, self.given.shape, round_all(np.abs(self.before), form.name))
        return Tensor(self.index, given, self.got, decode(given.data, given.dtype))

    @cached_property
    def before(self) -> Doubles:
        """The elements that were passed."""
        return read_float64_values(self.given)

    @cached_property
    def after(self) -> Doubles:
        """The elements that came back."""
        return read_float64_values(self.got)

    @cached_property
    def kind(self) -> Kind:
        if self.given.data == self.got.data or np.array_equal(self.before, self.after, equal_nan=True):
            return Kind.SAME
        if not self.after.any():
            return Kind.ZERO
        if np.isnan(self.after).all():
            return Kind.NAN
        return Kind.FINITE if np.isfinite(self.after[np.isfinite(self.before)]).all() else Kind.PARTLY

    @cached_property
    def factor(self) -> float | None:
        """The result divided by the input, at the largest element. None if this is not finite."""
        if self.kind in (Kind.PARTLY, Kind.NAN):
            return None
        place = int(np.abs(self.before).argmax())
        before, after = float(self.before[place]), float(self.after[place])
        if before == 0 or not math.isfinite(before):
            return None
        factor = after / before
        return factor if math.isfinite(factor) else None

    def is_scaled_by(self, factor: Fraction, bound: float) -> bool:
        """Return whether each element is within `bound` ulp of the exact product."""
        key = (factor, bound)
        if key not in self.known:
            expected = ExpectedArray(self.exact, factor)
            self.known[key] = self._may_be_scaled_by(factor, bound) and (
                self.is_surely_scaled_by(factor, bound) or self.is_near(expected, bound)
            )
        return self.known[key]

    def is_surely_scaled_by(self, factor: Fraction, bound: float) -> bool:
        """Return True if fast arithmetic shows that each element is within the bound, and False if it cannot tell."""
        if not fits_long_double(factor) or (self.form.precision > 24 and not has_long_doubles()):
            return False
        if not np.isfinite(self.before).all():
            return False
        every = measure_products(self.before, self.after, round_to_long_double(factor), self.form)
        return bool((every <= bound - DOUBT).all())

    def _may_be_scaled_by(self, factor: Fraction, bound: float) -> bool:
        """Return False if float64 shows that an element is more than `bound` ulp from the product."""
        if (np.isnan(self.after) & np.isfinite(self.before)).any():
            return False
        if bound >= 2.0**20 or self.kind in (Kind.NAN, Kind.PARTLY):
            return True
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            # A law may give a factor beyond float64. Its products are infinite, and not compared here.
            right = self.before * (float(factor) if abs(factor) <= LARGEST else math.inf)
            # Allow for ulps that differ by a factor of two at the end of a binade, and for two roundings in float64.
            spacing = np.abs(right) * 2.0 ** (2 - self.form.precision) + 4 * float(self.form.smallest_subnormal)
            far = np.abs(self.after - right) > spacing * (bound + 4)
        return not (far & np.isfinite(right)).any()

    def is_near(self, expected: ExpectedArray, bound: float) -> bool:
        """Return whether each element is within `bound` ulp of the expected one."""
        every = measure_distances(convert_to_dtype(self.got, self.given.dtype), expected, self.given.dtype)
        return bool(every.max() <= bound)

    @property
    def form(self) -> Format:
        return FORMATS[self.given.dtype]

    @property
    def is_zero(self) -> bool:
        """Whether every element that was passed is zero."""
        return not self.before.any()


#: A norm, or None if there is none.
Number = TypeVar("Number", Fraction, Fraction | None)


@dataclass
class AnsweredGroup:
    """A group of the oracle with the results of its gradients.

    Norm, threshold and error bounds are those of the oracle. Only norms that wrong functions take for the right one,
    such as that of a single gradient, are computed here.
    """

    seen: Seen
    tensors: Sequence[Tensor]
    #: Whether the group is a single gradient, split off from a larger group.
    alone: bool = False

    @cached_property
    def asked(self) -> groups.Group:
        """What the call asks of these gradients."""
        return groups.make_group(self.seen.case, [tensor.index for tensor in self.tensors])

    @cached_property
    def threshold(self) -> float:
        """The threshold of the norm. A unitwise clip has one for each unit."""
        return self.asked.threshold

    @cached_property
    def total(self) -> float | None:
        """The norm, NaN or infinity, if an element is NaN or infinite. None if all elements are finite."""
        return next(iter(list_nonfinite_norms(tensor.before for tensor in self.distinct)), None)

    @cached_property
    def norm(self) -> Fraction:
        """The exact norm of finite gradients."""
        if not self.alone:
            known = self.seen.prediction.norms[self.tensors[0].index]
            if known is not None:
                return known.middle
        return self.remember("norm", lambda: self.compute_norm_over([tensor.exact for tensor in self.tensors]))

    def remember(self, key: object, compute: Callable[[], Number]) -> Number:
        """Return a number that depends on the gradients only. Keep it for the results of other entry points."""
        known, whole_key = self.seen.prediction.measured, (key, self.alone, *(tensor.index for tensor in self.tensors))
        if whole_key not in known:
            known[whole_key] = compute()
        found: Number = known[whole_key]
        return found

    def compute_norm_over(self, tensors: Sequence[DyadicArray], order: float | None = None) -> Fraction:
        """Return the norm of some tensors, of another order if one is given, with an error of few units of float64."""
        count, wanted = sum(map(len, tensors)), self.seen.order if order is None else order
        divisor = count_divisor(self.seen.case.operation, count)
        if order is not None and divisor > 1:
            # A mean of powers is divided by the number of elements, and a norm outside its root.
            is_mean = self.seen.operation.averaging_power == 1
            divisor = 1 if order == math.inf else count if is_mean else count ** int(order)
        return compute_norm([self.seen.get_values(one) for one in tensors], wanted, divisor)

    @cached_property
    def norms(self) -> list[Fraction]:
        """The exact norm of each tensor."""
        return [part.norm for part in self.parts]

    @cached_property
    def sum_of_norms(self) -> Fraction:
        """The sum of the tensors' norms."""
        return self.remember("sum", self._add_norms)

    def _add_norms(self) -> Fraction:
        """Add the norms in pairs, so that a thousand fractions take little time."""
        every = self.norms
        while len(every) > 1:
            every = [sum(every[place : place + 2], Fraction(0)) for place in range(0, len(every), 2)]
        return every[0]

    @cached_property
    def parts(self) -> list[AnsweredGroup]:
        """A group for each gradient."""
        return [AnsweredGroup(self.seen, [tensor], alone=True) for tensor in self.tensors]

    def take_magnitudes(self) -> AnsweredGroup:
        """Return the group of the magnitudes of the elements, with the same results."""
        return AnsweredGroup(self.seen, [tensor.take_magnitudes() for tensor in self.tensors], alone=self.alone)

    @cached_property
    def count(self) -> int:
        """The number of elements."""
        return sum(len(tensor.exact) for tensor in self.tensors)

    @property
    def divisor(self) -> int:
        """The number that divides the sum of powers, if the norm is an average. Otherwise 1."""
        return self.asked.divisor

    @property
    def is_long(self) -> bool:
        """Whether the group has too many elements for further exact sums."""
        return self.count > MANY

    @cached_property
    def forms(self) -> list[Format]:
        """The formats in which the norm may have been computed: the narrowest, and for half precision also float32."""
        form = self.asked.form
        return [form, FORMATS["float32"]] if form.precision < 24 else [form]

    @cached_property
    def errors(self) -> ErrorBounds:
        """The error bounds of the neutral rule, the specification's own formula."""
        return self.seen.prediction.errors[self.tensors[0].index]

    @cached_property
    def coarsest(self) -> int:
        """The precision of the coarsest dtype, in bits."""
        return min(tensor.form.precision for tensor in self.tensors)

    def compute_bound(self, tensor: Tensor) -> float:
        """Return the error bound of each element, in ulp, if the norm is summed in the coarsest dtype."""
        bound = max(self.seen.prediction.errors[tensor.index].clip_bound, SCALING_ERROR)
        # The last rounding is that to the dtype of the result.
        return bound * 2.0 ** (tensor.form.precision - self.coarsest) + 1.0

    @cached_property
    def distinct(self) -> list[Tensor]:
        """The tensors. Equal gradients with equal results share a tensor, which occurs once."""
        return list({id(tensor): tensor for tensor in self.tensors}.values())

    def is_scaled_by(self, factor: Fraction) -> bool:
        """Return whether each element is within the error bound of the exact product."""
        return all(tensor.is_scaled_by(factor, self.compute_bound(tensor)) for tensor in self.distinct)

    def compute_coefficient(self, formula: Formula = PLAIN) -> Fraction | None:
        """Return the coefficient of a formula.

        Return None if an element is not finite, or the threshold is NaN or negative.
        """
        if self.total is not None or math.isnan(self.threshold) or self.threshold < 0:
            return None
        if formula == PLAIN:
            return compute_plain_coefficient(self.norm, self.threshold)
        known = self.seen.prediction.norms[self.tensors[0].index]
        return None if known is None else integers.compute_coefficient(known, self.threshold, formula)

    def follows(self, formula: Formula, *, careful: bool = False) -> bool:
        """Return whether the results follow a formula within the error bound. If `careful` is true, use the budget.

        The budget is the error of a careful computation, which is smaller than the bound.
        """
        factor = self.compute_coefficient(formula)
        if factor is None:
            return False
        if careful:
            return self._is_scaled_within(factor, self.errors.clip_budget + 1)
        return self.is_scaled_by(factor * self.seen.rate)

    @property
    def keeps_budget(self) -> bool:
        """Whether the judge passes the results: they are as near to the neutral rule as a careful computation."""
        factor = self.compute_coefficient()
        return factor is not None and self._is_scaled_within(factor, self.errors.clip_budget)

    def _is_scaled_within(self, factor: Fraction, bound: float) -> bool:
        return all(tensor.is_scaled_by(factor * self.seen.rate, bound) for tensor in self.distinct)

    @cached_property
    def is_plain(self) -> bool:
        """Whether finite gradients are right by the neutral rule, within the error bound."""
        factor = self.compute_coefficient()
        if factor is None:
            return False
        near = self.seen.prediction.near[self.tensors[0].index]
        if factor == 1 and not near and self.seen.rate == 1:
            return all(tensor.kind == "same" or tensor.is_scaled_by(factor, 0.0) for tensor in self.distinct)
        return self.is_scaled_by(factor * self.seen.rate)

    @cached_property
    def is_right_for_nonfinite(self) -> bool:
        """Whether the results are right for a norm that is infinite."""
        before = [tensor.before for tensor in self.distinct]
        return shows_nonfinite(before, [tensor.after for tensor in self.distinct], [math.inf])

    @property
    def is_right(self) -> bool:
        if self.total is None:
            return self.is_plain
        # With an infinite threshold, gradients that are not finite may come back unchanged, too.
        unchanged = self.threshold == math.inf and {tensor.kind for tensor in self.tensors} == {Kind.SAME}
        return unchanged or (self.threshold >= 0 and self.is_right_for_nonfinite)

    def overflows(self, form: Format) -> bool:
        """Return whether the sum of powers, or the norm itself, is beyond the range of a format."""
        limit = form.largest * (1 - compute_power_of_two(-form.precision))
        if self.norm > limit:
            return True
        if self.seen.order == math.inf:
            return False
        return raise_to_power(self.norm, self.seen.order) * self.divisor > limit

    def underflows(self, form: Format) -> bool:
        """Return whether a power or their mean is below the normal numbers of a format, so that it loses digits."""
        if self.seen.order == math.inf:
            return False
        if self.norm and raise_to_power(self.norm, self.seen.order) < form.smallest_normal:
            return True
        for tensor in self.distinct:
            sizes = np.abs(tensor.before[tensor.before != 0])
            if len(sizes) and raise_to_power(Fraction(float(sizes.min())), self.seen.order) < form.smallest_normal:
                return True
        return False

    def describe_effect(self, factor: float) -> str:
        """Return a word for the effect on the gradients: `unchanged`, `nan`, `zeros`, `infinite` or `other`."""
        kinds = {tensor.kind for tensor in self.tensors}
        if kinds == {Kind.SAME}:
            return "unchanged"
        if kinds == {Kind.NAN}:
            return "nan"
        if self.kinds == {Kind.ZERO}:
            return "zeros"
        with np.errstate(all="ignore"):
            products = all(
                np.array_equal(tensor.before * factor, tensor.after, equal_nan=True) for tensor in self.distinct
            )
        return "infinite" if products and math.isinf(factor) else "other"

    @cached_property
    def kinds(self) -> set[Kind]:
        """The kinds of results of the gradients that were not zero or empty."""
        return {tensor.kind for tensor in self.tensors if not tensor.is_zero}


#: A function that returns a number for a group, or None if it does not speak of the group.
Factor = Callable[[AnsweredGroup], Fraction | None]


@dataclass
class Seen:
    """One call, its results, and the exact values that models compare with them. All models read these facts."""

    case: Case
    results: Sequence[Array | None]
    #: Whether the answer also holds the right norm.
    has_right_norm: bool = False

    @cached_property
    def prediction(self) -> Prediction:
        return predict(self.case)

    @property
    def operation(self) -> Operation:
        return OPERATIONS[self.case.operation]

    @property
    def order(self) -> float:
        return self.case.norm_type

    @property
    def rate(self) -> Fraction:
        """The learning rate, by which an optimizer multiplies the clipped gradients."""
        return Fraction(self.case.options.get("learning_rate", 1.0))

    @cached_property
    def tensors(self) -> dict[int, Tensor]:
        """The included gradients with their results, by index.

        A gradient is left out if it is missing or empty, or if its result is missing or has an unknown dtype.
        """
        found: dict[int, Tensor] = {}
        # Share equal tensors, because a case may have thousands of gradients, many of them equal.
        alike: dict[tuple[Array, Array | None, Array, float], Tensor] = {}
        for index in self.case.included:
            gradient = self.case.gradients[index]
            given, got = gradient.array, self.results[index]
            if given is not None and got is not None and got.dtype in DTYPES and len(given.data):
                known = self.prediction.gradients[index]
                exact = known.values if known is not None else decode(given.data, given.dtype)
                key = (given, gradient.parameter, got, self.prediction.errors[index].clip_bound)
                found[index] = alike.setdefault(key, Tensor(index, given, got, exact))
        return found

    @cached_property
    def _values(self) -> dict[int, Doubles]:
        return {id(tensor.exact): tensor.before for tensor in self.tensors.values()}

    def get_values(self, exact: DyadicArray) -> Doubles:
        """Return the elements of a tensor of this call in float64."""
        known = self._values.get(id(exact))
        return exact.doubles if known is None else known

    @cached_property
    def excluded(self) -> list[DyadicArray]:
        """The excluded gradients, or an empty list if one is not finite."""
        gradients = zip(self.case.gradients, self.prediction.gradients, strict=True)
        excluded = [known.values for gradient, known in gradients if known is not None and not gradient.need_clip]
        return excluded if all(one.is_finite for one in excluded) else []

    @property
    def is_long(self) -> bool:
        """Whether a group has too many elements for further exact sums."""
        return any(group.is_long for group in self.groups)

    @cached_property
    def groups(self) -> list[AnsweredGroup]:
        """The groups of these gradients that share a norm. Groups without gradients are left out."""
        found = [
            AnsweredGroup(self, [self.tensors[i] for i in group if i in self.tensors])
            for group in list_norm_groups(self.case)
        ]
        return [group for group in found if group.tensors]


def compute_norm(tensors: Sequence[Doubles], order: float, divisor: int) -> Fraction:
    """Return the norm of the elements in the widest floats.

    The largest element is scaled to about 1. NumPy adds in pairs, so the relative error is a few units of float64.
    """
    magnitudes = np.abs(np.concatenate(tensors or [np.zeros(0)]))
    largest = float(magnitudes.max(initial=0.0))
    if order == math.inf or not largest:
        return Fraction(largest)
    exponent = math.frexp(largest)[1]
    scaled = np.ldexp(magnitudes, -exponent).astype(np.longdouble)
    # A power of long doubles is slow.
    powers = scaled**order if order % 1 or order > 4 else functools.reduce(np.multiply, [scaled] * int(order))
    total = powers.sum() / divisor
    root = total ** (1 / np.longdouble(order))
    high = float(root)
    return (Fraction(high) + Fraction(float(root - high))) * compute_power_of_two(exponent)


def round_doubles(values: Doubles, dtype: str) -> Doubles:
    """Return the numbers, each rounded once to the dtype."""
    return decode_doubles(round_all(values, dtype), dtype)


def is_product_over_infinity(tensor: Tensor, threshold: float) -> bool:
    """Return whether each element is `(x c) / inf`: NaN where the product overflows, too, and zero elsewhere."""
    largest = float(tensor.form.largest)
    with np.errstate(over="ignore", invalid="ignore"):
        beyond = np.abs(tensor.before * threshold) > largest
    return bool(np.array_equal(np.isnan(tensor.after), beyond) and not tensor.after[~beyond].any())


def raise_to_power(base: Fraction, order: float) -> Fraction:
    """Return a power of a number that is not negative, with an error of few units of float64 if its order is no int."""
    if order == int(order) or not base:
        return base ** int(order) if base else base
    exponent = base.numerator.bit_length() - base.denominator.bit_length()
    whole = math.floor(exponent * order)
    digits = float(base / compute_power_of_two(exponent)) ** order * 2.0 ** (exponent * order - whole)
    return Fraction(digits) * compute_power_of_two(whole)


def bound_power(form: Format, order: float) -> Fraction:
    """Return the largest quotient of two powers of a norm. A power multiplies the relative error by its order."""
    return 1 + Fraction(order) * NORM_ERROR * compute_power_of_two(-form.precision)


def compute_plain_coefficient(norm: Fraction, threshold: float) -> Fraction | None:
    """Return the coefficient of the neutral rule, or None for a threshold that is NaN or negative."""
    if math.isnan(threshold) or threshold < 0:
        return None
    return integers.compute_coefficient(Enclosure(norm, norm), threshold)


#: The sum of powers in float64 has at most this relative error. NumPy's pairwise sums keep it small.
SUM_ERROR = Fraction(1, 2**45)


def bound_norms_after_underflow(group: AnsweredGroup, form: Format) -> tuple[Fraction, Fraction]:
    """Return the least and the greatest power of the norm that a format may give if small powers underflow in it.

    The elements are scaled to a size near 1, and their powers are summed in float64.
    """
    sizes = np.concatenate([np.abs(tensor.before[tensor.before != 0]) for tensor in group.tensors])
    order, (_, exponent) = group.seen.order, math.frexp(float(sizes.max()))
    unit = raise_to_power(compute_power_of_two(exponent), order) / group.divisor
    powers = np.ldexp(sizes, -exponent) ** order
    step = form.smallest_subnormal / group.divisor
    # Powers of at most half the smallest number round to zero.
    kept = powers[powers >= _limit(form.smallest_normal / group.divisor / unit)]
    every = powers[powers > _limit(step / 2 / unit)]
    # Rounding a power to a subnormal number adds at most the spacing of the subnormal numbers.
    low = Fraction(float(kept.sum())) * unit * (1 - SUM_ERROR)
    high = Fraction(float(every.sum())) * unit * (1 + SUM_ERROR) + len(every) * step
    # A quotient may be subnormal where no power is.
    if group.divisor > 1 and low < form.smallest_normal:
        low, high = max(Fraction(0), low - form.smallest_subnormal), high + form.smallest_subnormal
    return low, high


def _limit(number: Fraction) -> float:
    """Return a number, or infinity if it is larger than every power of a scaled element."""
    return float(number) if number <= 1 else math.inf
