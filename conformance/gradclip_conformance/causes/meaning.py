"""Predict results for thresholds, norms and gradients that formulas leave open: zero, NaN, infinity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from gradclip_adapters.contract import Array

from ..cases.model import Case
from ..oracle.formats import FORMATS, read_float64_values
from ..oracle.formula import PLAIN, Formula
from .facts import Group, Kind, say_what_became
from .model import Explanation

__all__ = ["explain_excluded", "explain_special"]


def explain_special(group: Group, formulas: Sequence[Formula] = (PLAIN,)) -> Explanation | None:
    """Explain a group by a special threshold, norm or element; `effect` says what became of the gradients."""
    threshold = group.threshold
    if math.isnan(threshold):
        return Explanation.of("threshold-accepted", effect=say_what_became(group, math.nan))
    if threshold < 0:
        return _explain_negative(group, formulas)
    if group.total is not None:
        return _explain_nonfinite(group)
    every = {tensor.kind for tensor in group.tensors}
    if not group.norm:
        # A number added to the norm keeps the quotient of zeros from being NaN.
        if every <= {Kind.NAN} and all(formula.small == 0 for formula in formulas if formula != PLAIN):
            return Explanation.of("zero-over-zero" if threshold == 0 else "zero-norm-nan")
        return None
    if math.isinf(threshold) and (group.kinds <= {Kind.NAN, Kind.PARTLY} or group.kinds <= {Kind.ZERO}):
        return Explanation.of("infinite-threshold-nan", effect=say_what_became(group, math.inf))
    return None


def _explain_negative(group: Group, formulas: Sequence[Formula]) -> Explanation:
    """Say what became of the gradients: it makes the same mistake better or worse."""
    effect = say_what_became(group, group.threshold)
    if effect == "other" and _is_flipped(group, formulas):
        effect = "flipped"
    if group.total is None and not group.norm:
        # Gradients of zeros lose their signs at most, or are multiplied by infinity.
        effect = f"zeros {effect}"
    destroyed = group.kinds & {Kind.NAN, Kind.PARTLY} or effect in ("nan", "zeros", "zeros nan")
    severity = "destroyed" if destroyed else "unclipped" if effect == "unchanged" else ""
    return Explanation.of("negative-threshold", severity, effect=effect)


def _is_flipped(group: Group, formulas: Sequence[Formula]) -> bool:
    """Return whether each gradient was multiplied by the negative coefficient of a formula."""
    if group.total is not None:
        return False
    sums = [total for formula in formulas if (total := group.norm + formula.small)]
    if math.isinf(group.threshold):
        # A clip of the coefficient from above may keep it from below within float32.
        factors = [-FORMATS["float32"].largest]
    else:
        factors = [Fraction(group.threshold) / total for total in sums]
    return any(group.is_scaled_by(factor * group.seen.rate) for factor in factors)


def _explain_nonfinite(group: Group) -> Explanation | None:
    if all(tensor.kind is Kind.SAME for tensor in group.tensors):
        return Explanation.of("nonfinite-silent")
    return None


def explain_excluded(case: Case, results: Sequence[Array | None]) -> Explanation | None:
    """Explain excluded gradients that came back changed."""
    for gradient, got in zip(case.gradients, results, strict=True):
        given = gradient.array
        if given is None or gradient.need_clip or got is None or got.dtype != given.dtype:
            continue
        same = got.data == given.data or np.array_equal(
            read_float64_values(given), read_float64_values(got), equal_nan=True
        )
        if not same:
            return Explanation.of("excluded-changed")
    return None
