"""Predict results by other laws: another coefficient, another norm, or a multiple of the right result.

A law gives the factor of each gradient. The factor is computed from exact norms, so the whole answer can be compared
within the error bound of the dtype's arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from gradclip_adapters.contract import Array
from gradclip_adapters.operations import Operation

from ..oracle import integers
from ..oracle.arrays import decode
from ..oracle.formats import FORMATS, compute_power_of_two
from ..oracle.formula import PLAIN, Formula
from ..oracle.question import get_clipping_threshold
from .facts import Group, Seen, compute_norm, compute_plain_coefficient, raise_to_power, round_doubles
from .model import Explanation

__all__ = [
    "ABOVE",
    "BESIDE_EMPTY",
    "BREAKS",
    "FITS",
    "FORMULA_CAUSES",
    "KEEPS",
    "LAWS",
    "Law",
    "explain_by_formula",
    "fit_formula",
    "make_signed",
]

#: The causes of the formulas with an epsilon, by the kind of formula.
FORMULA_CAUSES: Mapping[str, str] = {
    "coefficient": "eps-in-coefficient",
    "max-denominator": "eps-beside-maximum",
    "min-numerator": "eps-below-minimum",
}

#: Usual values of epsilon. Other values are fitted to the answers.
USUAL = tuple(10.0**-k for k in range(17)) + tuple(2.0**-k for k in (10, 23, 52))

#: At most this many estimates are tried, the most accurate ones. Two would do for a function in one dtype.
SHARPEST = 4

#: A number is fitted to at most this many groups of gradients, which takes a tenth of a second.
MANY_GROUPS = 60

#: A larger fitted number is cut to this one, because it may be too large for float64. Neither reproduces an answer.
LARGEST_FIT = Fraction(2**1000)

Factor = Callable[[Group], Fraction | None]

#: The rule that a law breaks if it changes the results of almost every call above the threshold.
ABOVE = "scaled-above"
#: The rule that a law breaks if it changes the results of almost every call with several gradients.
SEVERAL = "one-norm-over-all"


@dataclass(frozen=True)
class Law:
    """A rule for the factor of a gradient, with its cause in the catalogue."""

    cause: str
    factor: Factor | None = None
    #: The norm that takes the place of the right one, if the law gives no factor. A function may return it, too.
    norm: Factor | None = None
    #: Whether each gradient has its own norm.
    is_of_each: bool = False
    #: The fitted numbers, which the explanation shows.
    parameters: tuple[tuple[str, Any], ...] = ()
    #: Whether results are magnitudes.
    loses_signs: bool = False
    #: The rule, without its operation, that every function with this law breaks, or an empty text. A function that
    #: keeps the rule does not have the law.
    breaks: str = ""
    #: The rule that every function with this law keeps, or an empty text.
    keeps: str = ""

    def compute_factor(self, group: Group) -> Fraction | None:
        """Return the factor of a gradient with a finite norm, or None if the law does not speak of it."""
        if self.factor is not None:
            return self.factor(group)
        norm = self.compute_norm(group)
        return None if norm is None else compute_plain_coefficient(norm, group.threshold)

    def compute_norm(self, group: Group) -> Fraction | None:
        """Return the norm of a gradient with a finite norm, or None if the law gives none."""
        compute = self.norm
        return None if compute is None else group.remember(self, lambda: compute(group))

    def reproduces(self, seen: Seen) -> bool:
        """Return whether the law gives every result of a call, and at least one that differs from the right one."""
        pairs = self._list_parts(seen)
        return all(self._reproduces_part(part) for part, _ in pairs) and any(self._differs(*pair) for pair in pairs)

    def _list_parts(self, seen: Seen) -> list[tuple[Group, Group]]:
        """Return the gradients that share a norm under this law, each with the group that shares the right norm."""
        return [(part, group) for group in seen.groups for part in (group.parts if self.is_of_each else [group])]

    def _reproduces_part(self, part: Group) -> bool:
        if part.total is not None:
            return part.is_right_for_nonfinite
        # A threshold below zero must be refused: another rule judges what else happens to it.
        if not part.threshold >= 0 or (self.loses_signs and any((one.after < 0).any() for one in part.distinct)):
            return False
        return self.scales(part)

    def scales(self, group: Group) -> bool:
        """Return whether the law gives the results of finite gradients."""
        # No factor makes a finite element NaN, and to compute the factor of a long list takes long.
        if any(np.isnan(one.after).any() for one in group.distinct):
            return False
        factor = self.compute_factor(group)
        if factor is None:
            return False
        return (group.take_magnitudes() if self.loses_signs else group).is_scaled_by(factor * group.seen.rate)

    def _differs(self, part: Group, group: Group) -> bool:
        """Return whether the factor differs from the right one by more than a rounding, or the signs are lost."""
        if part.total is not None:
            return False
        if self.loses_signs:
            return any((one.before < 0).any() for one in part.distinct)
        if group.total is not None:
            return True
        factor, right = self.compute_factor(part), group.compute_coefficient()
        return factor is None or right is None or abs(factor - right) * 2**group.coarsest > abs(right) / 2

    def explain(self) -> Explanation:
        """Return the explanation by this law."""
        return Explanation(self.cause, self.parameters)

    def speaks_of(self, seen: Seen) -> bool:
        """Return whether the law gives a result of a call that differs from the right one by more than rounding."""
        if self.loses_signs:
            return any((tensor.before < 0).any() for group in seen.groups for tensor in group.distinct)
        for part, group in self._list_parts(seen):
            if part.total is None:
                factor, right = self.compute_factor(part), group.compute_coefficient()
                # A rounding to bfloat16, the coarsest format, changes a number by at most 1 / 256 of it.
                if factor is not None and right is not None and abs(factor - right) > right * Fraction(1, 128):
                    return True
        return False


def _take_norm_of_other(group: Group) -> Fraction | None:
    """Return the norm at the gradient's place in a list of the norms that count, or 0 beyond its end."""
    seen, place = group.seen, group.tensors[0].index
    if seen.operation.shares_norms or seen.operation.divides_gradients:
        return None
    included = seen.case.included
    if place >= len(included):
        return Fraction(0)
    return next(
        (one.norm for one in seen.groups if one.total is None and one.tensors[0].index == included[place]), None
    )


def _count_equal_gradients_once(group: Group) -> Fraction | None:
    if not group.seen.operation.is_global:
        return None
    distinct = {tensor.given: tensor.exact for tensor in group.tensors}
    return group.compute_norm_over(list(distinct.values())) if len(distinct) < len(group.tensors) else None


def _scale_each(group: Group) -> Fraction | None:
    return group.norms[0] if group.seen.operation.shares_norms else None


def _of_all(speaks_of: Callable[[Operation], bool]) -> Factor:
    """Return a function that computes the norm of all gradients of a call, for some operations."""

    def compute_norm(group: Group) -> Fraction | None:
        exact = [one.exact for one in group.seen.tensors.values()]
        is_asked = speaks_of(group.seen.operation) and all(one.is_finite for one in exact)
        return group.compute_norm_over(exact) if is_asked else None

    return compute_norm


def _measure_example(group: Group) -> Fraction | None:
    """Return the norm of all layers of an example, in place of the norm of one layer."""
    case = group.seen.case
    if not case.options.get("layers"):
        return None
    example = case.gradients[group.tensors[0].index].group
    every = [one.exact for index, one in group.seen.tensors.items() if case.gradients[index].group == example]
    return group.compute_norm_over(every) if all(one.is_finite for one in every) else None


def _count_excluded(group: Group) -> Fraction | None:
    excluded = group.seen.excluded
    return group.compute_norm_over([*(one.exact for one in group.tensors), *excluded]) if excluded else None


def _leave_out_root(group: Group) -> Fraction | None:
    order = group.seen.order
    if order in (1, math.inf):
        return None
    return raise_to_power(group.norm, order)


def _take_square_root(group: Group) -> Fraction | None:
    """Return the square root of a sum of powers of another order."""
    order = group.seen.order
    return None if order in (2, math.inf) else take_root(raise_to_power(group.norm, order))


def _leave_out_root_of_average(group: Group) -> Fraction | None:
    """Divide the sum of squares by the number of elements, where the root of the sum is divided by it."""
    return group.norm**2 * group.count if group.seen.operation.averaging_power == 2 else None


def _leave_out_root_of_scaled(group: Group) -> Fraction | None:
    """Divide the elements by a power of two, add their powers, and return the sum times that power of two."""
    found = _leave_out_root(group)
    if found is None:
        return None
    largest = max((float(np.abs(tensor.before).max(initial=0.0)) for tensor in group.tensors), default=0.0)
    order = int(group.seen.order) - 1 if group.seen.order == int(group.seen.order) else 0
    return found / compute_power_of_two(order * math.frexp(largest)[1]) if order else None


def _take_mean(less: int) -> Factor:
    """Return a function that divides the sum of powers by the number of elements, less a number."""

    def compute_norm(group: Group) -> Fraction | None:
        order, counted = group.seen.order, max(group.count, 1) - less
        if order == math.inf or group.divisor > 1 or not counted:
            return None
        return group.norm * Fraction(1 / counted ** (1 / order))

    return compute_norm


def _average_by(power: float) -> Factor:
    """Return a function that divides the Euclidean norm by a power of the number of elements."""

    def compute_norm(group: Group) -> Fraction | None:
        own = group.seen.operation.averaging_power / 2
        if not own or own == power:
            return None
        return group.norm * Fraction(float(max(group.count, 1)) ** (own - power))

    return compute_norm


def _of_several(compute: Callable[[Group, int], Fraction]) -> Factor:
    """Return a function that computes a norm from several gradients and their number."""

    def compute_norm(group: Group) -> Fraction | None:
        return compute(group, len(group.tensors)) if len(group.tensors) > 1 else None

    return compute_norm


def _leave_out(choose: slice) -> Factor:
    """Return a function that computes the norm of some of the gradients that count."""

    def compute_norm(group: Group) -> Fraction | None:
        included = group.seen.case.included
        if not group.seen.operation.shares_norms or not group.is_whole:
            return None
        chosen = set(included[choose])
        left = [tensor.exact for tensor in group.tensors if tensor.index in chosen]
        return None if len(left) == len(group.tensors) else group.compute_norm_over(left) if left else Fraction(0)

    return compute_norm


def _leave_out_from(place: int) -> Factor:
    """Return a function that computes the norm of the elements before a place of each gradient."""

    def compute_norm(group: Group) -> Fraction | None:
        every = [tensor.exact for tensor in group.tensors]
        if all(len(one) <= place for one in every):
            return None
        return group.compute_norm_over([one.take_places(range(len(one))[:place]) for one in every])

    return compute_norm


def _add_below_root(eps: float) -> Factor:
    """Return a function that adds a number to the sum of powers, or to their mean, before it takes the root."""

    def compute_norm(group: Group) -> Fraction | None:
        order = group.seen.order
        if order == 2:
            return take_root(group.norm**2 + Fraction(eps))
        return (
            None if order == math.inf else raise_to_power(raise_to_power(group.norm, order) + Fraction(eps), 1 / order)
        )

    return compute_norm


def _make_under_root(eps: float) -> Law:
    """Return the law that adds a number to the sum of powers before it takes the root."""
    return Law("eps-under-root", norm=_add_below_root(eps), parameters=(("eps", eps),))


def _average_over(count: Callable[[Group], int]) -> Factor:
    """Return a function that averages over another number of elements. It does not speak of a number of zero."""

    def compute_norm(group: Group) -> Fraction | None:
        operation, counted = group.seen.operation, count(group)
        if not operation.is_average or not counted:
            return None
        return group.norm * Fraction((group.count / counted) ** (operation.averaging_power / 2))

    return compute_norm


def _count_along(axis: int) -> Factor:
    """Return a function that averages over the length of one axis. A vector has one, and a scalar is one element."""

    def count(group: Group) -> int:
        shape = group.tensors[0].given.shape
        return max(shape[axis], 1) if len(shape) > 1 else group.count

    return _average_over(count)


def _count_other_axes(group: Group) -> int:
    """Return the number of elements along all axes but the first, which may be taken for a batch."""
    shape = group.tensors[0].given.shape
    return max(math.prod(shape[1:]), 1) if len(shape) > 1 else group.count


def _count_nonzero(group: Group) -> int:
    return max(sum(int(np.count_nonzero(tensor.before)) for tensor in group.tensors), 1)


def _count_all(group: Group) -> int:
    return sum(len(tensor.exact) for tensor in group.seen.tensors.values())


def _divide_by_infinity(group: Group) -> Fraction | None:
    """Return a norm of zero for an average over more elements than the dtype can count."""
    if not group.seen.operation.is_average:
        return None
    return Fraction(0) if group.count > group.asked.form.largest else group.norm


def _round_elements(narrow: str) -> Factor:
    """Return the coefficient for the norm of elements that were rounded to a narrower dtype."""

    def compute_factor(group: Group) -> Fraction | None:
        if all(form.precision <= FORMATS[narrow].precision for form in group.forms):
            return group.compute_coefficient()
        if not 0 <= group.threshold < math.inf:
            return None
        rounded = [round_doubles(tensor.before, narrow) for tensor in group.tensors]
        if any(np.isinf(one).any() for one in rounded):
            return Fraction(0)
        return compute_plain_coefficient(compute_norm(rounded, group.seen.order, group.divisor), group.threshold)

    return compute_factor


def _subtract_mean(group: Group) -> Fraction | None:
    """Return the standard deviation of the elements, or of a norm the same without the division."""
    if group.seen.order != 2 or not group.count:
        return None
    values = np.concatenate([tensor.before for tensor in group.tensors])
    largest = float(np.abs(values).max())
    if not largest:
        return Fraction(0)
    exponent = math.frexp(largest)[1]
    scaled = np.ldexp(values, -exponent).astype(np.longdouble)
    power = Fraction(float(np.square(scaled - scaled.mean()).sum())) / group.divisor
    return take_root(power) * compute_power_of_two(exponent)


def _take_norms_of_matrices(group: Group) -> Fraction | None:
    """Join the norms of the gradients, where a matrix has a norm of matrices: its largest singular value, for one."""
    order = group.seen.order
    if order not in (1, 2, math.inf) or group.divisor > 1:
        return None
    norms = []
    for tensor in group.tensors:
        largest = float(np.abs(tensor.before).max(initial=0.0))
        if len(tensor.given.shape) == 2 and largest:
            exponent = math.frexp(largest)[1]
            matrix = np.ldexp(tensor.before, -exponent).reshape(tensor.given.shape)
            norms.append(Fraction(float(np.linalg.norm(matrix, order))) * compute_power_of_two(exponent))
        else:
            norms.append(group.compute_norm_over([tensor.exact]))
    return _join(norms, order)


def _join(norms: Sequence[Fraction], order: float) -> Fraction:
    if order == math.inf:
        return max(norms)
    return sum(norms, Fraction(0)) if order == 1 else take_root(sum((norm**2 for norm in norms), Fraction(0)))


def _join_by(order: float) -> Factor:
    """Return a function that joins the norms of several gradients by another order than that of each norm."""

    def compute_norm(group: Group) -> Fraction | None:
        return None if group.seen.order == order or len(group.tensors) < 2 else _join(group.norms, order)

    return compute_norm


def _divide_threshold(power: float) -> Factor:
    """Return the coefficient for a threshold that is divided by a power of the number of gradients."""

    def compute_factor(part: Group) -> Fraction | None:
        case, operation = part.seen.case, part.seen.operation
        mine = case.gradients[part.tensors[0].index].group
        many = [i for i in case.included if not operation.sums_examples or case.gradients[i].group == mine]
        if not operation.shares_norms or len(many) < 2 or not 0 <= part.threshold < math.inf:
            return None
        whole = get_clipping_threshold(case)
        return compute_plain_coefficient(part.norm, whole / len(many) ** power)

    return compute_factor


def _multiply_by_share(group: Group) -> Fraction | None:
    """Return the coefficient of a layer whose threshold is multiplied by its share of the elements, not by the root."""
    share = group.asked.share
    if share is None or not 0 <= group.threshold < math.inf:
        return None
    return compute_plain_coefficient(group.norm, get_clipping_threshold(group.seen.case) * float(share))


def _average_examples(group: Group) -> Fraction | None:
    case, right = group.seen.case, group.compute_coefficient()
    many = len({gradient.group for gradient in case.gradients})
    return right / many if group.seen.operation.sums_examples and right is not None and many > 1 else None


def _count_equal_once(group: Group) -> Fraction | None:
    """Return the factor of an example of which only one copy is added."""
    case, right = group.seen.case, group.compute_coefficient()
    if not group.seen.operation.sums_examples or right is None:
        return None
    examples: dict[int | None, list[Array | None]] = {}
    for gradient in case.gradients:
        examples.setdefault(gradient.group, []).append(gradient.array)
    copies = list(examples.values()).count(examples[case.gradients[group.tensors[0].index].group])
    return right / copies


def _round_threshold_to_first(group: Group) -> Fraction | None:
    """Return the coefficient for a threshold in the dtype of the first gradient, if the list has several dtypes."""
    dtypes = [gradient.array.dtype for gradient in group.seen.case.gradients if gradient.array is not None]
    if len(set(dtypes)) < 2 or not 0 <= group.threshold < math.inf or group.seen.operation.is_relative:
        return None
    rounded = float(round_doubles(np.array([group.threshold]), dtypes[0])[0])
    return Fraction(1) if math.isinf(rounded) else compute_plain_coefficient(group.norm, rounded)


def _round_threshold(round_off: Callable[[float], float]) -> Factor:
    def compute_factor(group: Group) -> Fraction | None:
        threshold = group.threshold
        if not 0 <= threshold < math.inf or group.seen.operation.is_relative:
            return None
        return compute_plain_coefficient(group.norm, float(round_off(threshold)))

    return compute_factor


def _cut_digits(digits: int) -> Callable[[float], float]:
    """Return a function that rounds a number to some decimal digits, as a text of it may have."""
    return lambda number: float(f"{number:.{digits}g}")


def _round_coefficient(digits: int) -> Callable[[Fraction, Group], Fraction]:
    return lambda right, _: Fraction(round(float(right), digits))


#: A function that returns the threshold of a unit from the norm of its parameter, `eps` and the clip factor.
Limit = Callable[[Fraction, Fraction, Fraction], Fraction]


def _limit_parameter(limit: Limit, *, of_whole: bool = False) -> Factor:
    """Return the coefficient of a unit whose threshold is computed in another way, maybe from the whole parameter."""

    def compute_factor(group: Group) -> Fraction | None:
        case = group.seen.case
        mine = case.gradients[group.tensors[0].index]
        units = [one for one in case.gradients if one.group == mine.group] if of_whole else [mine]
        exact = [decode(unit.parameter.data, unit.parameter.dtype) for unit in units if unit.parameter is not None]
        factor = get_clipping_threshold(case)
        if not exact or not all(one.is_finite for one in exact) or not 0 <= factor < math.inf:
            return None
        norm = integers.compute_norm(exact).middle
        threshold = limit(norm, Fraction(case.options.get("eps", 1e-3)), Fraction(factor))
        return Fraction(1) if group.norm <= threshold else threshold / group.norm

    return compute_factor


def _tolerate(most: Fraction) -> Factor:
    """Return the coefficient that is 1 for a norm above the threshold by at most this part of the threshold."""

    def compute_factor(group: Group) -> Fraction | None:
        if not 0 < group.threshold < math.inf:
            return None
        above = group.norm / Fraction(group.threshold) - 1
        # Rounding explains a norm that is a few ulp above the threshold.
        return Fraction(1) if Fraction(16, 2**group.coarsest) < above <= most else group.compute_coefficient()

    return compute_factor


def take_root(square: Fraction) -> Fraction:
    """Return a square root with 100 correct bits."""
    if square <= 0:
        return Fraction(0)
    exponent = 100 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    shifted = square * compute_power_of_two(2 * exponent)
    return Fraction(math.isqrt(shifted.numerator // shifted.denominator)) / compute_power_of_two(exponent)


def _add_in_turn(dtype: type[np.floating[Any]]) -> Factor:
    """Return a function that computes a norm from powers that are rounded to a dtype and added one by one.

    Such a sum stops growing when it is much larger than each power.
    """

    def compute_norm(group: Group) -> Fraction | None:
        order = group.seen.order
        values = np.abs(np.concatenate([tensor.before for tensor in group.tensors]))
        largest = float(values.max(initial=0.0))
        if order == math.inf or not largest:
            return None
        exponent = math.frexp(largest)[1]
        powers = (np.ldexp(values, -exponent) ** order).astype(dtype)
        total = float(np.add.accumulate(powers, dtype=dtype)[-1])
        if not (math.isfinite(total) and total > 0):
            return None
        return Fraction((total / group.divisor) ** (1 / order)) * compute_power_of_two(exponent)

    return compute_norm


def _use_other_order(order: float) -> Factor:
    def compute_norm(group: Group) -> Fraction | None:
        return (
            None if group.seen.order == order else group.compute_norm_over([one.exact for one in group.tensors], order)
        )

    return compute_norm


def make_signed(eps: float) -> Law:
    """Return the law that adds powers of the elements with their signs, and adds an epsilon to the norm.

    A power of an odd order keeps the sign, and a power of a fractional order is NaN for a negative element. Each
    gradient has a norm first. A norm that is NaN compares as not larger than the threshold.
    """

    def compute_factor(group: Group) -> Fraction | None:
        order = group.seen.order
        if order == math.inf or order % 2 == 0 or not 0 <= group.threshold < math.inf:
            return None
        with np.errstate(all="ignore"):
            norms = np.array([_take_signed_root(tensor.before, order) for tensor in group.tensors])
            norm = float(_take_signed_root(norms, order)) + eps
        if not math.isfinite(norm) or norm == 0 or group.threshold / norm >= 1:
            return Fraction(1)
        return Fraction(group.threshold) / Fraction(norm)

    return Law("signed-powers", compute_factor, breaks=ABOVE)


def _take_largest_element(group: Group) -> Fraction | None:
    """Return the magnitude of the largest element, which is not the largest magnitude."""
    if group.seen.order != math.inf:
        return None
    return Fraction(
        abs(max((float(tensor.before.max()) for tensor in group.tensors if len(tensor.before)), default=0.0))
    )


def _take_magnitude_of_sum(group: Group) -> Fraction | None:
    total = sum((tensor.before.astype(np.longdouble).sum() for tensor in group.tensors), np.longdouble(0))
    return Fraction(float(abs(total))) if np.isfinite(float(total)) else None


def _raise_norm(least: float, *, spares_others: bool = False) -> Factor:
    """Return a function that replaces a smaller norm by `least`.

    Gradients below the threshold shrink, too, unless the function compares their own norms with it first.
    """

    def compute_factor(group: Group) -> Fraction | None:
        right = group.compute_coefficient()
        if right is None or group.norm >= Fraction(least) or not group.norm or not group.threshold < least:
            return right
        return Fraction(1) if spares_others and right == 1 else Fraction(group.threshold) / Fraction(least)

    return compute_factor


def _fit_beside_empty(group: Group) -> Fraction | None:
    """Return the factor of the first gradient, if a gradient without elements is in the list.

    A sum over no elements that nobody writes leaves old memory in its place, so that the norm may be any number.
    """
    case = group.seen.case
    arrays = (case.gradients[index].array for index in case.included)
    if len(case.gradients) < 2 or all(array is None or array.data for array in arrays):
        return None
    factor = group.tensors[0].factor
    return None if factor is None or not 0 <= factor <= 1 else Fraction(factor)


def _take_signed_root(values: np.ndarray[Any, Any], order: float) -> Any:
    return np.float64((values.astype(np.float64) ** order).sum()) ** (1 / order)


def _change_above(change: Callable[[Fraction, Group], Fraction]) -> Factor:
    """Return a function that gives the right coefficient below the threshold, and a changed one above."""

    def compute_factor(group: Group) -> Fraction | None:
        right = group.compute_coefficient()
        if right is None or group.norm <= Fraction(group.threshold if math.isfinite(group.threshold) else 0):
            return right
        return change(right, group)

    return compute_factor


def _scale_always(group: Group) -> Fraction | None:
    if not math.isfinite(group.threshold) or group.threshold < 0 or not group.norm:
        return None
    return Fraction(group.threshold) / group.norm


#: The law of a norm that counts memory for a gradient without elements.
BESIDE_EMPTY = Law("empty-counted", _fit_beside_empty)

#: The laws without a fitted number. Those that change the norm come first.
LAWS: tuple[Law, ...] = (
    Law("excluded-counted", norm=_count_excluded),
    Law("norms-misplaced", norm=_take_norm_of_other),
    Law("equal-counted-once", norm=_count_equal_gradients_once),
    Law("norm-of-each", norm=_scale_each, is_of_each=True, breaks=SEVERAL),
    Law(
        "norm-of-all",
        norm=_of_all(lambda one: not (one.is_global or one.is_average or one.divides_gradients or one.sums_examples)),
        breaks="each-tensor-alone",
    ),
    Law("norm-of-all", norm=_measure_example),
    Law("no-root", norm=_leave_out_root, breaks=ABOVE),
    Law("no-root", norm=_leave_out_root_of_scaled, breaks=ABOVE),
    Law("no-root", norm=_leave_out_root_of_average, breaks=ABOVE),
    Law("other-root", norm=_take_square_root),
    Law("mean-of-squares", norm=_take_mean(0), breaks=ABOVE),
    Law("other-average", norm=_average_by(0.0), breaks=ABOVE),
    Law("other-average", norm=_average_by(0.5), breaks=ABOVE),
    Law("other-average", norm=_average_by(1.0), breaks=ABOVE),
    Law("count-off-by-one", norm=_average_over(lambda group: group.count - 1), breaks=ABOVE),
    Law("count-off-by-one", norm=_average_over(lambda group: group.count + 1), breaks=ABOVE),
    Law("mean-of-squares", norm=_take_mean(1), breaks=ABOVE),
    Law("count-of-axis", norm=_count_along(0)),
    Law("count-of-axis", norm=_count_along(-1)),
    Law("count-of-axis", norm=_average_over(_count_other_axes)),
    Law("count-of-all", norm=_average_over(_count_all)),
    Law("count-overflow", norm=_divide_by_infinity),
    Law("zeros-not-counted", norm=_average_over(_count_nonzero)),
    Law("mean-subtracted", norm=_subtract_mean, breaks=ABOVE),
    Law("norm-of-matrix", norm=_take_norms_of_matrices),
    Law("narrower-arithmetic", _round_elements("float32"), parameters=(("dtype", "float32"),)),
    Law("mean-of-norms", norm=_of_several(lambda group, count: group.sum_of_norms / count), breaks=SEVERAL),
    *(Law("elements-left-out", norm=_leave_out_from(place)) for place in (2**20, 10**6, 2**16)),
    # It comes before the norm that leaves out a large gradient, which may change as little.
    Law("threshold-narrowed", _round_threshold_to_first),
    Law("gradients-left-out", norm=_leave_out(slice(1, None)), breaks=ABOVE),
    Law("gradients-left-out", norm=_leave_out(slice(-1)), breaks=ABOVE),
    Law("gradients-left-out", norm=_leave_out(slice(1)), breaks=ABOVE),
    Law("gradients-left-out", norm=_leave_out(slice(-1, None)), breaks=ABOVE),
    # Two equal examples are averaged, too. So this law comes first.
    Law("examples-merged", _count_equal_once),
    Law("examples-averaged", _average_examples),
    # Where examples share no element, their sum has the norm of all examples together.
    Law("examples-summed-first", norm=_of_all(lambda one: one.sums_examples)),
    Law("threshold-divided", _divide_threshold(1.0), is_of_each=True, breaks=SEVERAL),
    Law("threshold-divided", _divide_threshold(0.5), is_of_each=True, breaks=SEVERAL),
    Law("threshold-divided", _multiply_by_share),
    Law("threshold-rounded", _round_threshold(math.floor), breaks=ABOVE),
    Law("threshold-rounded", _round_threshold(round), breaks=ABOVE),
    Law("threshold-rounded", _round_threshold(math.ceil), breaks=ABOVE),
    *(Law("threshold-rounded", _round_threshold(_cut_digits(digits)), breaks=ABOVE) for digits in range(3, 7)),
    Law("eps-in-limit", _limit_parameter(lambda norm, eps, factor: (norm + eps) * factor)),
    Law("eps-in-limit", _limit_parameter(lambda norm, eps, factor: max(norm * factor, eps))),
    Law("eps-ignored", _limit_parameter(lambda norm, _, factor: norm * factor)),
    Law("eps-ignored", _limit_parameter(lambda norm, _, factor: max(norm, Fraction(1e-3)) * factor)),
    Law("whole-parameter", _limit_parameter(lambda norm, eps, factor: max(norm, eps) * factor, of_whole=True)),
    Law("signs-lost", Group.compute_coefficient, loses_signs=True, breaks=ABOVE),
    Law("threshold-tolerance", _tolerate(Fraction(1)), keeps=ABOVE),
    Law("threshold-tolerance", _tolerate(Fraction(1, 100)), keeps=ABOVE),
    *(Law("coefficient-rounded", _change_above(_round_coefficient(digits)), breaks=ABOVE) for digits in range(1, 9)),
    Law("sum-of-norms", norm=_of_several(lambda group, _: group.sum_of_norms), breaks=SEVERAL),
    Law("largest-of-norms", norm=_of_several(lambda group, _: max(group.norms)), breaks=SEVERAL),
    Law("norm-divided", norm=_of_several(lambda group, count: group.norm / count), breaks=SEVERAL),
    Law("norm-divided", norm=_of_several(lambda group, count: group.norm / Fraction(math.sqrt(count))), breaks=SEVERAL),
    *(
        Law("other-order", norm=_use_other_order(order), parameters=(("order", f"{order:g}"),), breaks=ABOVE)
        for order in (2.0, 1.0, math.inf, 3.0, 4.0)
    ),
    *(Law("norms-joined", norm=_join_by(order)) for order in (2.0, 1.0, math.inf)),
    Law("signed-powers", norm=_take_largest_element),
    Law("signed-powers", norm=_take_magnitude_of_sum, breaks=ABOVE),
    make_signed(0.0),
    Law("long-sum", norm=_add_in_turn(np.float32)),
    Law("long-sum", norm=_add_in_turn(np.float16)),
    Law("always-scales", _scale_always),
    Law("sign-flipped", _change_above(lambda right, _: -right), breaks=ABOVE),
    Law("scaled-twice", _change_above(lambda right, _: right * right), breaks=ABOVE),
    Law("coefficient-inverted", _change_above(lambda right, _: 1 / right if right else Fraction(0)), breaks=ABOVE),
    Law("unit-norm", _change_above(lambda _, group: 1 / group.norm), breaks=ABOVE),
    BESIDE_EMPTY,
)


def fit_formula(views: Iterable[Seen]) -> list[Formula]:
    """Return the formulas with an epsilon that reproduce enough answers with different norms or thresholds."""
    # Results that rounding explains are no evidence of an epsilon.
    groups = [group for seen in views for group in _select_ordinary(seen) if not group.follows(PLAIN)][:MANY_GROUPS]
    found = []
    for kind in FORMULA_CAUSES:
        best = _fit_kind(kind, groups)
        if best is not None:
            found.append(best)
    # The formula that explains most comes first.
    return [formula for _, formula in sorted(found, key=lambda pair: -pair[0])]


def _select_ordinary(seen: Seen) -> list[Group]:
    """Return the groups from which an epsilon or a constant can be fitted."""
    return [
        group
        for group in seen.groups
        if group.total is None
        and not group.is_long
        and seen.rate == 1
        and 0 < group.threshold < math.inf
        and group.norm
        and (group.tensors[0].factor or 0) > 0
    ]


def _fit_kind(kind: str, groups: Sequence[Group]) -> tuple[int, Formula] | None:
    estimates = [found for group in groups if (found := _estimate(kind, group)) is not None]
    best: tuple[int, Formula] | None = None
    for eps in _list_candidates(estimates):
        formula = Formula(kind, eps)
        asked = {(group.norm, group.threshold) for group in groups if group.follows(formula)}
        # The first pair may give the number. Another one must confirm it.
        if len(asked) > 1 and (best is None or len(asked) > best[0]):
            best = len(asked), formula
    return best


def _list_candidates(estimates: Sequence[tuple[float, float]]) -> list[float]:
    """Return the numbers to try: the usual numbers near the most accurate estimates, and these estimates themselves."""
    sharpest = [eps for _, eps in sorted(estimates)[:SHARPEST] if 0 < eps < math.inf]
    usual = [min(USUAL, key=lambda one: abs(math.log(one / eps))) for eps in sharpest]
    near = [one for one, eps in zip(usual, sharpest, strict=True) if abs(math.log(one / eps)) < 0.5]
    return list(dict.fromkeys([*near, *(float(f"{eps:.3g}") for eps in sharpest)]))


def _estimate(kind: str, group: Group) -> tuple[float, float] | None:
    """Estimate epsilon from the first gradient. Return the estimate's relative rounding error, and the estimate."""
    factor = Fraction(group.tensors[0].factor or 0.0)
    norm, threshold = group.norm, Fraction(group.threshold)
    if kind == "coefficient":
        eps = threshold / factor - norm if factor < 1 else Fraction(0)
    elif kind == "max-denominator":
        eps = threshold / factor - max(norm, threshold)
    else:
        eps = min(norm, threshold) / factor - norm
    try:
        number, error = float(eps), float(max(norm, threshold)) * 2.0**-group.coarsest
    except OverflowError:
        return None
    return (error / number, number) if 0 < number < math.inf else None


def explain_by_formula(formula: Formula) -> Explanation:
    """Return the explanation by a formula with an epsilon."""
    return Explanation.of(FORMULA_CAUSES[formula.kind], eps=formula.eps)


def _fit_under_root(views: Iterable[Seen]) -> float | None:
    """Return the number that was added to the sum of squares, or None if no number was."""
    groups = (group for seen in views for group in _select_ordinary(seen) if seen.order == 2)
    return _find_shown_number(groups, _estimate_under_root, _make_under_root)


def _estimate_under_root(group: Group) -> list[float]:
    factor = Fraction(group.tensors[0].factor or 0.0)
    added = (Fraction(group.threshold) / factor) ** 2 - group.norm**2 if factor < 1 else Fraction(0)
    return _list_candidates([(0.0, float(added))]) if 0 < added < LARGEST_FIT else []


def _fit_multiple(views: Iterable[Seen]) -> float | None:
    """Return the constant by which clipped gradients differ from the right results, or None if there is no constant."""
    groups = (group for seen in views for group in _select_ordinary(seen) if group.norm > Fraction(group.threshold))
    return _find_shown_number(groups, _estimate_multiple, _make_multiple)


def _estimate_multiple(group: Group) -> list[float]:
    ratio = Fraction(group.tensors[0].factor or 0.0) * group.norm / Fraction(group.threshold)
    number = float(f"{float(min(ratio, LARGEST_FIT)):.2g}")
    return [] if number == 1.0 else [number]


def _fit_least_norm(*, spares_others: bool) -> Callable[[Iterable[Seen]], float | None]:
    """Return a function that finds the number which replaces smaller norms, or None if no number does."""

    def find(views: Iterable[Seen]) -> float | None:
        groups = (group for seen in views for group in _select_ordinary(seen))
        return _find_shown_number(groups, _estimate_least_norm, _make_least_norm(spares_others=spares_others))

    return find


def _estimate_least_norm(group: Group) -> list[float]:
    least = Fraction(group.threshold) / Fraction(group.tensors[0].factor or 1.0)
    return _list_candidates([(0.0, float(least))]) if group.norm < least < LARGEST_FIT else []


def _make_least_norm(*, spares_others: bool) -> Callable[[float], Law]:
    """Return a function that makes the law which replaces smaller norms by a number."""
    return lambda number: Law(
        "norm-replaced", _raise_norm(number, spares_others=spares_others), parameters=(("number", number),)
    )


def _find_shown_number(
    groups: Iterable[Group], estimate: Callable[[Group], list[float]], make: Callable[[float], Law]
) -> float | None:
    """Return the number with which a law reproduces most answers, or None if it does not reproduce two.

    `estimate` returns the numbers that one answer may show. Another norm or another threshold must confirm it.
    """
    asked: dict[float, set[tuple[Fraction, float]]] = {}
    for group in islice(groups, MANY_GROUPS):
        for number in estimate(group):
            if make(number).reproduces(group.seen):
                asked.setdefault(number, set()).add((group.norm, group.threshold))
    best = max(asked, key=lambda number: len(asked[number]), default=None)
    return best if best is not None and len(asked[best]) > 1 else None


def _make_multiple(number: float) -> Law:
    """Return the law that multiplies clipped gradients by a constant."""
    factor = _change_above(lambda right, _: right * Fraction(number))
    return Law("multiple", factor, parameters=(("number", number),), breaks=ABOVE)


def _fit_floor(views: Iterable[Seen]) -> float | None:
    """Return the number that replaces smaller thresholds, or None if no number does.

    Every wrong group with a smaller threshold and a larger norm must then have this number as its norm.
    """
    asked = [
        group
        for seen in views
        for group in seen.groups
        if group.total is None and not group.is_long and seen.rate == 1 and 0 <= group.threshold < math.inf
    ][:MANY_GROUPS]
    norms = (max(Fraction(group.tensors[0].factor or 0.0), Fraction(0)) * group.norm for group in asked)
    for number in dict.fromkeys(float(f"{float(min(norm, LARGEST_FIT)):.2g}") for norm in norms):
        law = _make_floor(number)
        replaced = [group for group in asked if group.threshold < number < group.norm]
        different = {(group.norm, group.threshold) for group in replaced}
        # Many causes give calls with one threshold one norm. A threshold of zero gives them a norm of zero.
        is_shown = len({group.threshold for group in replaced}) > 1 or 0.0 in {group.threshold for group in replaced}
        # Two digits of one result in half precision may be a coincidence.
        is_precise = len(different) > 1 or any(group.coarsest >= 24 for group in replaced)
        if is_shown and is_precise and all(law.scales(group) for group in replaced):
            others = [group for group in replaced if group.threshold]
            if not others or not any(all(one.scales(group) for group in others) for one in LAWS):
                return number
    return None


def _make_floor(number: float) -> Law:
    """Return the law that replaces smaller thresholds by a number."""

    def compute_factor(group: Group) -> Fraction | None:
        return compute_plain_coefficient(group.norm, max(group.threshold, number))

    return Law("threshold-replaced", compute_factor, parameters=(("number", number),))


@dataclass(frozen=True)
class Fit:
    """A kind of law with a number, which is fitted to several answers."""

    cause: str
    make: Callable[[float], Law]
    #: Return the number that several answers show, or None.
    find: Callable[[Sequence[Seen]], float | None]
    #: The parameter of the explanation that holds the number.
    parameter: str = "number"


FITS = (
    Fit("threshold-replaced", _make_floor, _fit_floor),
    Fit("multiple", _make_multiple, _fit_multiple),
    Fit("eps-under-root", _make_under_root, _fit_under_root, "eps"),
    # MindSpore's `ClipByNorm` limits the sum of squares to 1e-6, for gradients below the threshold, too.
    *(
        Fit("norm-replaced", _make_least_norm(spares_others=spares), _fit_least_norm(spares_others=spares))
        for spares in (False, True)
    ),
)

_KINDS = (*LAWS, *(fit.make(1.0) for fit in FITS))

#: The rules that functions with a law break or keep, by the law's cause.
BREAKS: Mapping[str, str] = {law.cause: law.breaks for law in _KINDS if law.breaks}
KEEPS: Mapping[str, str] = {law.cause: law.keeps for law in _KINDS if law.keeps}
