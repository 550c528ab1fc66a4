"""Compute the factors that wrong functions apply, although their norm is right or is not all that is wrong.

Each function returns None where its law does not speak of a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from gradclip_adapters.contract import Array

from ..oracle import integers
from ..oracle.arrays import decode
from ..oracle.question import get_clipping_threshold
from .facts import (
    NORM_ERROR,
    AnsweredGroup,
    Factor,
    compute_plain_coefficient,
    raise_to_power,
    round_doubles,
)


def divide_threshold(part: AnsweredGroup, *, power: float) -> Fraction | None:
    """Return the coefficient for a threshold that is divided by a power of the number of gradients."""
    case, operation = part.seen.case, part.seen.operation
    mine = case.gradients[part.tensors[0].index].group
    many = [i for i in case.included if not operation.sums_examples or case.gradients[i].group == mine]
    if not operation.shares_norms or len(many) < 2 or not 0 <= part.threshold < math.inf:
        return None
    return compute_plain_coefficient(part.norm, get_clipping_threshold(case) / len(many) ** power)


def multiply_by_share(group: AnsweredGroup) -> Fraction | None:
    """Return the coefficient of a layer whose threshold is multiplied by its share of the elements, not by the root."""
    share = group.asked.share
    if share is None or not 0 <= group.threshold < math.inf:
        return None
    return compute_plain_coefficient(group.norm, get_clipping_threshold(group.seen.case) * float(share))


def average_examples(group: AnsweredGroup) -> Fraction | None:
    """Return the factor of an example in an average of the examples, which takes the place of their sum."""
    case, right = group.seen.case, group.compute_coefficient()
    many = len({gradient.group for gradient in case.gradients})
    return right / many if group.seen.operation.sums_examples and right is not None and many > 1 else None


def leave_out_example(group: AnsweredGroup, *, place: int) -> Fraction | None:
    """Return the factor of an example in a sum that leaves out the example at one place."""
    case, right = group.seen.case, group.compute_coefficient()
    examples = list(dict.fromkeys(gradient.group for gradient in case.gradients))
    if not group.seen.operation.sums_examples or right is None or len(examples) < 2:
        return None
    is_left_out = case.gradients[group.tensors[0].index].group == examples[place]
    return Fraction(0) if is_left_out else right


def count_equal_once(group: AnsweredGroup) -> Fraction | None:
    """Return the factor of an example of which only one copy is added."""
    case, right = group.seen.case, group.compute_coefficient()
    if not group.seen.operation.sums_examples or right is None:
        return None
    examples: dict[int | None, list[Array | None]] = {}
    for gradient in case.gradients:
        examples.setdefault(gradient.group, []).append(gradient.array)
    copies = list(examples.values()).count(examples[case.gradients[group.tensors[0].index].group])
    return right / copies


def round_threshold_to_first(group: AnsweredGroup) -> Fraction | None:
    """Return the coefficient for a threshold in the dtype of the first gradient, if the list has several dtypes."""
    dtypes = [gradient.array.dtype for gradient in group.seen.case.gradients if gradient.array is not None]
    if len(set(dtypes)) < 2 or not 0 <= group.threshold < math.inf or group.seen.operation.is_relative:
        return None
    rounded = float(round_doubles(np.array([group.threshold]), dtypes[0])[0])
    return Fraction(1) if math.isinf(rounded) else compute_plain_coefficient(group.norm, rounded)


def round_threshold(round_off: Callable[[float], float]) -> Factor:
    """Return a function that computes the coefficient for a rounded threshold."""

    def compute_factor(group: AnsweredGroup) -> Fraction | None:
        threshold = group.threshold
        if not 0 <= threshold < math.inf or group.seen.operation.is_relative:
            return None
        return compute_plain_coefficient(group.norm, float(round_off(threshold)))

    return compute_factor


def cut_digits(digits: int) -> Callable[[float], float]:
    """Return a function that rounds a number to some decimal digits, as a text of it may have."""
    return lambda number: float(f"{number:.{digits}g}")


def round_coefficient(digits: int) -> Callable[[Fraction, AnsweredGroup], Fraction]:
    """Return a function that rounds the coefficient to some decimal places."""
    return lambda right, _: Fraction(round(float(right), digits))


#: A function that returns the threshold of a unit from the norm of its parameter, `eps` and the clip factor.
Limit = Callable[[Fraction, Fraction, Fraction], Fraction]


def limit_parameter(limit: Limit, *, of_whole: bool = False) -> Factor:
    """Return the coefficient of a unit whose threshold is computed in another way, maybe from the whole parameter."""

    def compute_factor(group: AnsweredGroup) -> Fraction | None:
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


def scale_to_clip_factor(group: AnsweredGroup) -> Fraction | None:
    """Return the coefficient of a unit that is scaled to the clip factor, without the norm of its parameter."""
    right = group.compute_coefficient()
    if not group.seen.operation.is_relative or right is None or right == 1:
        return right
    return Fraction(get_clipping_threshold(group.seen.case)) / group.norm


def tolerate(group: AnsweredGroup) -> Fraction | None:
    """Return the coefficient that is 1 for a norm above the threshold, but at most twice as large."""
    if not 0 < group.threshold < math.inf:
        return None
    above = group.norm / Fraction(group.threshold) - 1
    return Fraction(1) if Fraction(NORM_ERROR, 2**group.coarsest) < above <= 1 else group.compute_coefficient()


def keep_signs(group: AnsweredGroup, *, eps: float) -> Fraction | None:
    """Return the coefficient for a norm of powers of the elements with their signs, to which an epsilon is added.

    A power of an odd order keeps the sign, and a power of a fractional order is NaN for a negative element. Each
    gradient has a norm first. A norm that is NaN compares as not larger than the threshold.
    """
    order = group.seen.order
    if order == math.inf or order % 2 == 0 or not 0 <= group.threshold < math.inf:
        return None
    with np.errstate(all="ignore"):
        norms = np.array([_take_signed_root(tensor.before, order) for tensor in group.tensors])
        norm = float(_take_signed_root(norms, order)) + eps
    if not math.isfinite(norm) or norm == 0 or group.threshold / norm >= 1:
        return Fraction(1)
    return Fraction(group.threshold) / Fraction(norm)


def raise_norm(group: AnsweredGroup, *, least: float, spares_others: bool) -> Fraction | None:
    """Return the coefficient for a smaller norm that is replaced by `least`.

    Gradients below the threshold shrink, too, unless the function compares their own norms with it first.
    """
    right = group.compute_coefficient()
    if right is None or group.norm >= Fraction(least) or not group.norm or not group.threshold < least:
        return right
    return Fraction(1) if spares_others and right == 1 else Fraction(group.threshold) / Fraction(least)


def fit_beside_empty(group: AnsweredGroup) -> Fraction | None:
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


def change_above(change: Callable[[Fraction, AnsweredGroup], Fraction]) -> Factor:
    """Return a function that gives the right coefficient below the threshold, and a changed one above."""

    def compute_factor(group: AnsweredGroup) -> Fraction | None:
        right = group.compute_coefficient()
        if right is None or group.norm <= Fraction(group.threshold if math.isfinite(group.threshold) else 0):
            return right
        return change(right, group)

    return compute_factor


def keep_coefficient(group: AnsweredGroup) -> Fraction | None:
    """Return the coefficient of the last gradient that is above its threshold, up to this one."""
    if group.seen.operation.shares_norms:
        return None
    kept = Fraction(1)
    for one in group.seen.groups:
        coefficient = one.compute_coefficient()
        if coefficient is None:
            return None
        kept = kept if coefficient == 1 else coefficient
        if one is group:
            break
    return kept


def compare_otherwise(is_above: Callable[[AnsweredGroup, Fraction], bool]) -> Factor:
    """Return a function that scales to the threshold if other numbers than norm and threshold compare as larger."""

    def compute_factor(group: AnsweredGroup) -> Fraction | None:
        if not 0 <= group.threshold < math.inf or not group.norm:
            return group.compute_coefficient()
        threshold = Fraction(group.threshold)
        return threshold / group.norm if is_above(group, threshold) else Fraction(1)

    return compute_factor


def is_power_above(group: AnsweredGroup, threshold: Fraction) -> bool:
    """Return whether the sum of powers, of which the norm is the root, is above the threshold."""
    return group.seen.order != math.inf and raise_to_power(group.norm, group.seen.order) > threshold


def scale_gradually(group: AnsweredGroup) -> Fraction | None:
    """Return the threshold divided by its sum with the norm, for gradients below the threshold, too."""
    if not 0 < group.threshold < math.inf:
        return group.compute_coefficient()
    threshold = Fraction(group.threshold)
    return threshold / (threshold + group.norm)


def scale_always(group: AnsweredGroup) -> Fraction | None:
    """Return the threshold divided by the norm, for gradients below the threshold, too."""
    if not math.isfinite(group.threshold) or group.threshold < 0:
        return None
    return Fraction(group.threshold) / group.norm if group.norm else group.compute_coefficient()
