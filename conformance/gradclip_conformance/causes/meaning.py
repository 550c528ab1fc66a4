"""Explain the results of special thresholds, norms and elements: zero, negative, NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from ..cases.model import Case
from ..oracle.formats import FORMATS, read_float64_values
from ..oracle.formula import PLAIN, Formula
from .facts import NORM_ERROR, AnsweredGroup, Kind, Seen, compute_norm, is_product_over_infinity
from .model import Explanation


def explain_special(group: AnsweredGroup, formulas: Sequence[Formula] = (PLAIN,)) -> Explanation | None:
    """Explain a group with a special threshold, norm or element. `effect` names the effect on the gradients."""
    threshold = group.threshold
    if math.isnan(threshold):
        return Explanation.of("threshold-accepted", effect=group.describe_effect(math.nan))
    if threshold < 0:
        return _explain_negative(group, formulas)
    if group.total is not None:
        return _explain_nonfinite(group)
    every = {tensor.kind for tensor in group.tensors}
    if not group.norm:
        # With an epsilon in the denominator, zero is not divided by zero.
        if every <= {Kind.NAN} and all(formula.small == 0 for formula in formulas if formula != PLAIN):
            return Explanation.of("zero-over-zero" if threshold == 0 else "zero-norm-nan")
        return None
    if _is_infinite(group) and (group.kinds <= {Kind.NAN, Kind.PARTLY} or _are_all_zeroed(group.seen)):
        return Explanation.of("infinite-threshold-nan", effect=group.describe_effect(math.inf))
    if _is_infinite_in_narrower(group):
        return Explanation.of("infinite-threshold-nan", effect="nan in the narrower dtype")
    return None


def _is_infinite_in_narrower(group: AnsweredGroup) -> bool:
    """Return whether a finite threshold spoils only the gradients of dtypes that do not hold it."""
    narrow = [tensor for tensor in group.tensors if group.threshold > FORMATS[tensor.given.dtype].largest]
    others = [tensor for tensor in group.tensors if tensor not in narrow]
    if not narrow or not others or not all(tensor.kind in (Kind.NAN, Kind.PARTLY) for tensor in narrow):
        return False
    factor = min(Fraction(1), Fraction(group.threshold) / group.norm) * group.seen.rate
    return all(tensor.is_scaled_by(factor, group.compute_bound(tensor)) for tensor in others)


def _is_infinite(group: AnsweredGroup) -> bool:
    """Return whether the threshold is infinite, or becomes infinite in the dtype of a gradient."""
    return any(group.threshold > FORMATS[tensor.given.dtype].largest for tensor in group.tensors)


def _are_all_zeroed(seen: Seen) -> bool:
    """Return whether all gradients with an infinite threshold became zero. A single one was rather lost."""
    return all(group.kinds <= {Kind.ZERO} for group in seen.groups if _is_infinite(group))


def _explain_negative(group: AnsweredGroup, formulas: Sequence[Formula]) -> Explanation:
    """Return the explanation with the effect on the gradients, which decides the severity."""
    effect = group.describe_effect(group.threshold)
    if effect == "other" and _is_flipped(group, formulas):
        effect = "flipped"
    if group.total is None and not group.norm:
        # Mark gradients of zeros, because the same mistake has other effects on them.
        effect = f"zeros {effect}"
    destroyed = group.kinds & {Kind.NAN, Kind.PARTLY} or effect in ("nan", "zeros", "zeros nan")
    severity = "destroyed" if destroyed else "unclipped" if effect == "unchanged" else ""
    return Explanation.of("negative-threshold", severity, effect=effect)


def _is_flipped(group: AnsweredGroup, formulas: Sequence[Formula]) -> bool:
    """Return whether each gradient was multiplied by the negative coefficient of a formula."""
    if group.total is not None:
        return False
    sums = [total for formula in formulas if (total := group.norm + formula.small)]
    if math.isinf(group.threshold):
        # A function that limits the coefficient to 1 may also limit it to the most negative float32 number.
        factors = [-FORMATS["float32"].largest]
    else:
        factors = [Fraction(group.threshold) / total for total in sums]
    return any(group.is_scaled_by(factor * group.seen.rate) for factor in factors)


def _explain_nonfinite(group: AnsweredGroup) -> Explanation | None:
    if all(tensor.kind is Kind.SAME for tensor in group.tensors):
        return Explanation.of("nonfinite-silent")
    if group.kinds == {Kind.ZERO}:
        return Explanation.of("nonfinite-silent", effect="zeros")
    if group.total == math.inf and all(is_product_over_infinity(one, group.threshold) for one in group.distinct):
        # The infinite element shows. But a finite element whose product overflows is NaN, too, instead of zero.
        return Explanation.predict("product-out-of-range", "destroyed")
    return Explanation.of("nonfinite-silent", effect="left out") if _is_left_out(group) else None


def _is_left_out(group: AnsweredGroup) -> bool:
    """Return whether the finite elements were clipped by their own norm, as if there were no others."""
    finite = [np.isfinite(tensor.before) for tensor in group.tensors]
    if group.is_long or not all(
        np.array_equal(tensor.before[~kept], tensor.after[~kept], equal_nan=True)
        for tensor, kept in zip(group.tensors, finite, strict=True)
    ):
        return False
    values = [tensor.before[kept] for tensor, kept in zip(group.tensors, finite, strict=True)]
    norm = compute_norm(values, group.seen.order, 1)
    if not norm:
        return False
    factor = 1.0 if group.threshold >= norm else float(Fraction(group.threshold) / norm)
    error = NORM_ERROR * 2.0**-group.coarsest
    return all(
        bool(
            (np.abs(tensor.after - tensor.before * factor)[kept] <= np.abs(tensor.before[kept]) * factor * error).all()
        )
        for tensor, kept in zip(group.tensors, finite, strict=True)
    )


def counts_nonfinite_excluded(group: AnsweredGroup) -> bool:
    """Return whether NaN or infinity in an excluded gradient made the norm of finite gradients NaN or infinite."""
    return bool(group.kinds) and has_nonfinite_excluded(group.seen.case) and group.is_right_for_nonfinite


def has_nonfinite_excluded(case: Case) -> bool:
    """Return whether an excluded gradient has a NaN or an infinity."""
    excluded = [one.array for one in case.gradients if not one.need_clip and one.array is not None]
    return not all(np.isfinite(read_float64_values(one)).all() for one in excluded)


def explain_excluded(seen: Seen, *, by_bits: bool = False) -> Explanation | None:
    """Explain excluded gradients that came back changed.

    With `by_bits`, a zero of the other sign and a NaN with other bits count as changed, too.
    """
    for gradient, got in zip(seen.case.gradients, seen.results, strict=True):
        given = gradient.array
        if given is None or gradient.need_clip or got is None or got.dtype != given.dtype or got.data == given.data:
            continue
        if by_bits or not np.array_equal(read_float64_values(given), read_float64_values(got), equal_nan=True):
            return Explanation.of("excluded-changed")
    return None
