"""Compute the norms that wrong functions take for the right one: of other elements, of another order, or rounded.

Each function returns None where its law does not speak of a group. A group has at least one element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from gradclip_adapters.operations import Operation

from ..oracle.formats import FORMATS, compute_power_of_two
from ..oracle.question import count_divisor
from .facts import AnsweredGroup, Factor, compute_norm, raise_to_power, round_doubles


def take_norm_of_other(group: AnsweredGroup) -> Fraction | None:
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


def count_equal_gradients_once(group: AnsweredGroup) -> Fraction | None:
    """Return the norm of all gradients, of which equal ones count once."""
    if not group.seen.operation.is_global:
        return None
    distinct = {tensor.given: tensor.exact for tensor in group.tensors}
    return group.compute_norm_over(list(distinct.values())) if len(distinct) < len(group.tensors) else None


def scale_each(group: AnsweredGroup) -> Fraction | None:
    """Return the norm of the gradient alone, where gradients share a norm."""
    return group.norms[0] if group.seen.operation.shares_norms else None


def of_all(speaks_of: Callable[[Operation], bool]) -> Factor:
    """Return a function that computes the norm of all gradients of a call, for some operations."""

    def compute_norm(group: AnsweredGroup) -> Fraction | None:
        exact = [one.exact for one in group.seen.tensors.values()]
        is_asked = speaks_of(group.seen.operation) and all(one.is_finite for one in exact)
        return group.compute_norm_over(exact) if is_asked else None

    return compute_norm


def measure_example(group: AnsweredGroup) -> Fraction | None:
    """Return the norm of all layers of an example, in place of the norm of one layer."""
    case = group.seen.case
    if not case.options.get("layers"):
        return None
    example = case.gradients[group.tensors[0].index].group
    every = [one.exact for index, one in group.seen.tensors.items() if case.gradients[index].group == example]
    return group.compute_norm_over(every) if all(one.is_finite for one in every) else None


def count_excluded(group: AnsweredGroup) -> Fraction | None:
    """Return the norm of the included and the excluded gradients."""
    excluded = group.seen.excluded
    return group.compute_norm_over([*(one.exact for one in group.tensors), *excluded]) if excluded else None


def leave_out_root(group: AnsweredGroup) -> Fraction | None:
    """Return the sum of powers instead of the norm."""
    order = group.seen.order
    if order in (1, math.inf):
        return None
    return raise_to_power(group.norm, order)


def take_square_root(group: AnsweredGroup) -> Fraction | None:
    """Return the square root of a sum of powers of another order."""
    order = group.seen.order
    return None if order in (2, math.inf) else take_root(raise_to_power(group.norm, order))


def leave_out_root_of_average(group: AnsweredGroup) -> Fraction | None:
    """Divide the sum of squares by the number of elements, where the root of the sum is divided by it."""
    return group.norm**2 * group.count if group.seen.operation.averaging_power == 2 else None


def leave_out_root_of_scaled(group: AnsweredGroup) -> Fraction | None:
    """Divide the elements by a power of two, add their powers, and return the sum times that power of two."""
    found = leave_out_root(group)
    if found is None:
        return None
    largest = max(float(np.abs(tensor.before).max()) for tensor in group.tensors)
    order = int(group.seen.order) - 1 if group.seen.order == int(group.seen.order) else 0
    return found / compute_power_of_two(order * math.frexp(largest)[1]) if order else None


def take_mean(group: AnsweredGroup, *, less: int = 0) -> Fraction | None:
    """Divide the sum of powers by the number of elements, less a number."""
    order, counted = group.seen.order, group.count - less
    if order == math.inf or group.divisor > 1 or not counted:
        return None
    return group.norm * Fraction(1 / counted ** (1 / order))


def average_by(group: AnsweredGroup, *, power: float) -> Fraction | None:
    """Divide the Euclidean norm by a power of the number of elements."""
    own = group.seen.operation.averaging_power / 2
    if not own or own == power:
        return None
    return group.norm * Fraction(float(group.count) ** (own - power))


def of_several(compute: Callable[[AnsweredGroup, int], Fraction]) -> Factor:
    """Return a function that computes a norm from several gradients and their number."""

    def compute_norm(group: AnsweredGroup) -> Fraction | None:
        return compute(group, len(group.tensors)) if len(group.tensors) > 1 else None

    return compute_norm


def leave_out(group: AnsweredGroup, *, kept: slice) -> Fraction | None:
    """Return the norm of some of the gradients that count."""
    seen = group.seen
    if not seen.operation.shares_norms or len(group.tensors) < len(seen.tensors):
        return None
    chosen = set(seen.case.included[kept])
    left = [tensor.exact for tensor in group.tensors if tensor.index in chosen]
    return None if len(left) == len(group.tensors) else group.compute_norm_over(left) if left else Fraction(0)


def keep_elements(group: AnsweredGroup, *, kept: slice) -> Fraction | None:
    """Return the norm of some of the elements of each gradient."""
    left = [tensor.before[kept] for tensor in group.tensors]
    count = sum(map(len, left))
    if count == group.count:
        return None
    return (
        compute_norm(left, group.seen.order, count_divisor(group.seen.case.operation, count)) if count else Fraction(0)
    )


def add_norms_below_root(group: AnsweredGroup) -> Fraction | None:
    """Return the root of the sum of the norms, which take the place of their powers."""
    order = group.seen.order
    if not group.seen.operation.shares_norms or order in (1, math.inf):
        return None
    return take_root(group.sum_of_norms) if order == 2 else raise_to_power(group.sum_of_norms, 1 / order)


def add_below_root(group: AnsweredGroup, *, eps: float) -> Fraction | None:
    """Add a number to the sum of powers, or to their mean, before the root is taken."""
    order = group.seen.order
    if order == 2:
        return take_root(group.norm**2 + Fraction(eps))
    return None if order == math.inf else raise_to_power(raise_to_power(group.norm, order) + Fraction(eps), 1 / order)


def average_over(count: Callable[[AnsweredGroup], int]) -> Factor:
    """Return a function that averages over another number of elements. It does not speak of a number of zero."""

    def compute_norm(group: AnsweredGroup) -> Fraction | None:
        operation, counted = group.seen.operation, count(group)
        if not operation.is_average or not counted:
            return None
        return group.norm * Fraction((group.count / counted) ** (operation.averaging_power / 2))

    return compute_norm


def count_along(group: AnsweredGroup, *, axis: int) -> int:
    """Return the length of one axis. A vector has one, and a scalar is one element."""
    shape = group.tensors[0].given.shape
    return shape[axis] if len(shape) > 1 else group.count


def count_other_axes(group: AnsweredGroup) -> int:
    """Return the number of elements along all axes but the first, which may be taken for a batch."""
    shape = group.tensors[0].given.shape
    return math.prod(shape[1:]) if len(shape) > 1 else group.count


def count_nonzero(group: AnsweredGroup) -> int:
    """Return the number of elements that are not zero, at least 1."""
    return max(sum(int(np.count_nonzero(tensor.before)) for tensor in group.tensors), 1)


def count_all(group: AnsweredGroup) -> int:
    """Return the number of elements of all gradients of the call."""
    return sum(len(tensor.exact) for tensor in group.seen.tensors.values())


def divide_by_infinity(group: AnsweredGroup) -> Fraction | None:
    """Return a norm of zero for an average over more elements than the dtype can count."""
    if not group.seen.operation.is_average:
        return None
    return Fraction(0) if group.count > group.asked.form.largest else group.norm


def subtract_mean(group: AnsweredGroup) -> Fraction | None:
    """Return the standard deviation of the elements, or of a norm the same without the division."""
    if group.seen.order != 2:
        return None
    values = np.concatenate([tensor.before for tensor in group.tensors])
    largest = float(np.abs(values).max())
    if not largest:
        return Fraction(0)
    exponent = math.frexp(largest)[1]
    # A call may have a million elements: compute in place.
    deviations = np.ldexp(values, -exponent).astype(np.longdouble)
    deviations -= deviations.mean()
    power = Fraction(float(np.square(deviations, out=deviations).sum())) / group.divisor
    return take_root(power) * compute_power_of_two(exponent)


def round_elements(group: AnsweredGroup, *, narrow: str) -> Fraction | None:
    """Return the norm of elements that were rounded to a narrower dtype."""
    if all(form.precision <= FORMATS[narrow].precision for form in group.forms):
        return group.norm
    rounded = [round_doubles(tensor.before, narrow) for tensor in group.tensors]
    # Powers that leave the range of the dtype have the same effect. Only lost digits show a narrower dtype.
    if any(np.isinf(one).any() for one in rounded) or not any(one.any() for one in rounded):
        return None
    return compute_norm(rounded, group.seen.order, group.divisor)


def take_norms_of_matrices(group: AnsweredGroup) -> Fraction | None:
    """Join the norms of the gradients, where a matrix has a norm of matrices: its largest singular value, for one."""
    order = group.seen.order
    if order not in (1, 2, math.inf) or group.divisor > 1:
        return None
    norms = []
    for tensor in group.tensors:
        largest = float(np.abs(tensor.before).max())
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


def join_by(group: AnsweredGroup, *, order: float) -> Fraction | None:
    """Join the norms of several gradients by another order than that of each norm."""
    return None if group.seen.order == order or len(group.tensors) < 2 else _join(group.norms, order)


def take_root(square: Fraction) -> Fraction:
    """Return a square root with 100 correct bits."""
    if square <= 0:
        return Fraction(0)
    exponent = 100 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    shifted = square * compute_power_of_two(2 * exponent)
    return Fraction(math.isqrt(shifted.numerator // shifted.denominator)) / compute_power_of_two(exponent)


def add_in_turn(group: AnsweredGroup, *, dtype: type[np.floating[Any]]) -> Fraction | None:
    """Return the norm from powers that are rounded to a dtype and added one by one.

    Such a sum stops growing when it is much larger than each power.
    """
    order = group.seen.order
    values = np.abs(np.concatenate([tensor.before for tensor in group.tensors]))
    largest = float(values.max())
    if order == math.inf or not largest:
        return None
    exponent = math.frexp(largest)[1]
    powers = (np.ldexp(values, -exponent) ** order).astype(dtype)
    total = float(np.add.accumulate(powers, dtype=dtype)[-1])
    if not (math.isfinite(total) and total > 0):
        return None
    return Fraction((total / group.divisor) ** (1 / order)) * compute_power_of_two(exponent)


def use_other_order(group: AnsweredGroup, *, order: float) -> Fraction | None:
    """Return the norm of another order."""
    return None if group.seen.order == order else group.compute_norm_over([one.exact for one in group.tensors], order)


def take_root_of_infinite_order(group: AnsweredGroup) -> Fraction | None:
    """Return the norm of order infinity that the formula of the other orders gives: a root of this order is 1."""
    return Fraction(1) if group.seen.order == math.inf else None


def take_largest_element(group: AnsweredGroup) -> Fraction | None:
    """Return the magnitude of the largest element, which is not the largest magnitude."""
    if group.seen.order != math.inf:
        return None
    return Fraction(abs(max(float(tensor.before.max()) for tensor in group.tensors)))


def take_magnitude_of_sum(group: AnsweredGroup) -> Fraction | None:
    """Return the magnitude of the sum of the elements."""
    total = sum((tensor.before.astype(np.longdouble).sum() for tensor in group.tensors), np.longdouble(0))
    return Fraction(float(abs(total))) if np.isfinite(float(total)) else None
