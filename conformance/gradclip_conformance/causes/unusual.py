"""Explain unusual calls: repeated gradients, parameter groups, rows that are stored twice, and derivatives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradclip_adapters.arrays import make_following_call
from gradclip_adapters.contract import Array, Gradient

from ..cases.model import Case
from ..judge.expectations.unusual import find_first, sum_rows
from ..oracle.arrays import decode
from ..oracle.formats import read_float64_values, round_all
from ..oracle.formula import PLAIN, Formula
from ..oracle.question import get_bounds, get_clipping_threshold
from .facts import NORM_ERROR, AnsweredGroup, Seen, Tensor, round_doubles
from .model import Explanation
from .values import is_right_value


def explain_repeated(seen: Seen, formulas: Sequence[Formula]) -> Explanation | None:
    """Explain a gradient that occurs several times in the list, and is scaled once for each occurrence."""
    case = seen.case
    apart = replace(case, gradients=tuple(replace(gradient, same_as=None) for gradient in case.gradients))
    groups = Seen(apart, seen.results).groups
    times = Counter(find_first(case, i) for i in range(len(case.gradients)))

    def is_scaled_so_often(group: AnsweredGroup, formula: Formula) -> bool:
        factor = group.compute_coefficient(formula)
        return factor is not None and all(
            tensor.is_scaled_by(factor ** times[find_first(case, tensor.index)], 2 * group.compute_bound(tensor))
            for tensor in group.tensors
        )

    for formula in (PLAIN, *formulas):
        if all(is_scaled_so_often(group, formula) for group in groups):
            return Explanation.of("scaled-for-each-place")
    return None


def explain_derivative(seen: Seen) -> Explanation | None:
    """Explain a NaN in the derivative through a clip."""
    values = [read_float64_values(one) for one in seen.results if one is not None]
    return Explanation.of("derivative-nan") if any(np.isnan(one).any() for one in values) else None


def explain_groups(seen: Seen) -> Explanation | None:
    """Explain an optimizer that clips each of its parameter groups by the group's own norm."""
    case, results = seen.case, seen.results
    numbers = {gradient.group for gradient in case.gradients}
    if len(numbers) < 2 or len(results) != len(case.gradients):
        return None
    for number in numbers:
        mine = [i for i, gradient in enumerate(case.gradients) if gradient.group == number]
        alone = replace(case, gradients=tuple(case.gradients[i] for i in mine))
        for group in Seen(alone, [results[i] for i in mine]).groups:
            factor = group.compute_coefficient()
            if factor is None or not group.is_scaled_by(factor * group.seen.rate):
                return None
    return Explanation.of("norm-of-group")


def is_clipped_by_rows(seen: Seen) -> bool:
    """Return whether each row of a matrix, along its last axis, or each part along the first, has its own norm."""
    operation = seen.operation
    if operation.is_relative or operation.sums_examples or seen.order != 2:
        return False
    tensors, threshold = list(seen.tensors.values()), get_clipping_threshold(seen.case)
    return any(len(one.given.shape) > 1 for one in tensors) and any(
        all(_is_clipped_in_parts(one, threshold, along_first, operation.averaging_power) for one in tensors)
        for along_first in (False, True)
    )


def _is_clipped_in_parts(tensor: Tensor, threshold: float, along_first: bool, averaging_power: float) -> bool:
    shape, length = tensor.given.shape, len(tensor.before)
    if len(shape) > 1:
        length = length // shape[0] if along_first else shape[-1]
    before = tensor.before.reshape(-1, max(length, 1)).astype(np.longdouble)
    norms = np.sqrt((before * before).sum(axis=1, keepdims=True)) / max(length, 1) ** (averaging_power / 2)
    right = np.where(norms <= threshold, before, before * (threshold / norms)).ravel()
    allowed = np.abs(right) * NORM_ERROR * 2.0**-tensor.form.precision + 2 * float(tensor.form.smallest_subnormal)
    return bool((np.abs(tensor.after - right) <= allowed).all())


def has_limited_elements(seen: Seen) -> bool:
    """Return whether the elements of each gradient above the threshold are limited to it, with both signs.

    Where no element lies beyond the threshold, gradients that were not clipped look the same.
    """
    has_larger = any((np.abs(one.before) > group.threshold).any() for group in seen.groups for one in group.distinct)
    return has_larger and all(map(_is_right_or_limited, seen.groups))


def _is_right_or_limited(group: AnsweredGroup) -> bool:
    if group.is_right or group.compute_coefficient() in (None, 1):
        return group.is_right
    return all(
        np.array_equal(
            round_doubles(np.clip(tensor.before, -group.threshold, group.threshold), tensor.form.name), tensor.after
        )
        for tensor in group.distinct
    )


def is_overwritten(seen: Seen) -> bool:
    """Return whether the wrong results are those of the call that follows, which is made before they are read."""
    if not seen.case.options.get("followed"):
        return False
    following = make_following_call(seen.case.call(""))
    later = Seen(replace(seen.case, gradients=following.gradients, options=following.options), seen.results)
    if not seen.operation.is_by_norm:
        return is_right_value(later) and not is_right_value(seen)
    wrong = {tensor.index for group in seen.groups if not group.is_right for tensor in group.tensors}
    explained = {tensor.index for group in later.groups if group.is_right for tensor in group.tensors}
    return bool(wrong) and wrong <= explained


def has_dense_rows(seen: Seen) -> bool:
    """Return whether the result for a row-sparse gradient is dense. Such a result does not count as another shape."""
    return len(seen.results) == len(seen.case.gradients) and any(
        gradient.rows is not None
        and gradient.array is not None
        and got is not None
        and got.shape == (gradient.height, *gradient.array.shape[1:]) != gradient.array.shape
        for gradient, got in zip(seen.case.gradients, seen.results, strict=True)
    )


def explain_rows(seen: Seen, formulas: Sequence[Formula]) -> Explanation | None:
    """Explain row-sparse gradients that were clipped before stored rows of the same index were added."""
    case, results = seen.case, seen.results
    if not seen.operation.is_by_norm:
        fits = _are_clipped_apart(case, results)
    else:
        stored = replace(case, gradients=tuple(replace(one, rows=None, height=None) for one in case.gradients))
        unclipped = Seen(stored, [gradient.array for gradient in stored.gradients])
        fits = any(_are_scaled_apart(case, unclipped, results, formula) for formula in (PLAIN, *formulas))
    return Explanation.of("rows-clipped-apart") if fits else None


def _are_scaled_apart(case: Case, seen: Seen, results: Sequence[Array | None], formula: Formula) -> bool:
    for group in seen.groups:
        factor = group.compute_coefficient(formula)
        if factor is None:
            return False
        for tensor in group.tensors:
            gradient, got = case.gradients[tensor.index], results[tensor.index]
            given = _make_dense(gradient, tensor.given)
            if got is None or (got.dtype, got.shape) != (given.dtype, given.shape):
                return False
            # Each stored row is rounded before the addition. The addition may cancel digits and so enlarge the error.
            bound = (
                4 * group.compute_bound(tensor) * (1 if gradient.rows is None else _find_cancellation(gradient, given))
            )
            if not Tensor(tensor.index, given, got, decode(given.data, given.dtype)).is_scaled_by(factor, bound):
                return False
    return True


def _are_clipped_apart(case: Case, results: Sequence[Array | None]) -> bool:
    low, high = get_bounds(case)
    for gradient, got in zip(case.gradients, results, strict=True):
        if gradient.array is None or got is None or not gradient.need_clip:
            continue
        clipped = round_all(np.clip(read_float64_values(gradient.array), low, high), gradient.array.dtype)
        right = _make_dense(gradient, replace(gradient.array, data=clipped))
        if not np.array_equal(read_float64_values(right), read_float64_values(got)):
            return False
    return True


def _make_dense(gradient: Gradient, array: Array) -> Array:
    return array if gradient.rows is None else sum_rows(array, gradient.rows, gradient.height or 0)


def _find_cancellation(gradient: Gradient, given: Array) -> float:
    """Return the quotient of the largest stored element and the smallest nonzero sum, but at least 1."""
    assert gradient.array is not None
    sums = np.abs(read_float64_values(given))
    least = sums[sums > 0].min(initial=np.inf)
    most = float(np.abs(read_float64_values(gradient.array)).max(initial=0.0))
    return max(1.0, most / float(least)) if np.isfinite(least) else 1.0
