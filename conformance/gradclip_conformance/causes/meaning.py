"""Predict results of thresholds, norms and gradients about which a formula says too little: zero, NaN, infinity."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gradclip_adapters.contract import Array

from ..cases.model import Case
from ..oracle.formats import float64_values
from .facts import Group, Kind
from .model import Explanation

__all__ = ["explain_excluded", "explain_special"]


def explain_special(group: Group) -> Explanation | None:
    """Explain a group by a special threshold, norm or element."""
    threshold = group.threshold
    if math.isnan(threshold):
        return Explanation.of("threshold-accepted")
    if threshold < 0:
        return _explain_negative(group)
    if group.total is not None:
        return _explain_nonfinite(group)
    every = {tensor.kind for tensor in group.tensors}
    if not group.norm:
        if every <= {Kind.NAN}:
            return Explanation.of("zero-over-zero" if threshold == 0 else "zero-norm-nan")
        return None
    if math.isinf(threshold) and group.kinds <= {Kind.NAN, Kind.PARTLY}:
        return Explanation.of("infinite-threshold-nan")
    if math.isinf(threshold) and group.kinds <= {Kind.ZERO}:
        return Explanation.of("infinite-threshold-nan", effect="zeros")
    return None


def _explain_negative(group: Group) -> Explanation:
    """Say what became of the gradients: it makes the same mistake better or worse."""
    kinds = group.kinds
    if kinds & {Kind.NAN, Kind.PARTLY} or kinds == {Kind.ZERO}:
        return Explanation.of("negative-threshold", "destroyed")
    return Explanation.of("negative-threshold", "unclipped" if kinds == {Kind.SAME} else "")


def _explain_nonfinite(group: Group) -> Explanation | None:
    if all(tensor.kind is Kind.SAME for tensor in group.tensors):
        return Explanation.of("nonfinite-silent")
    return None


def explain_excluded(case: Case, results: Sequence[Array | None]) -> Explanation | None:
    """Explain excluded gradients that did not come back as they were."""
    for gradient, got in zip(case.gradients, results, strict=True):
        given = gradient.array
        if given is None or gradient.need_clip or got is None or got.dtype != given.dtype:
            continue
        same = got.data == given.data or np.array_equal(float64_values(given), float64_values(got), equal_nan=True)
        if not same:
            return Explanation.of("excluded-changed")
    return None
