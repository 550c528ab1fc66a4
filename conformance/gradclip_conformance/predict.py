"""What a formula predicts for a case: the oracle, applied to a call.

The neutral rule is the formula `plain`; a framework's own formula is another one. Predictions are kept, because every
subject of every framework is held against the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from . import exact
from .case import Case
from .expected import PLAIN, Bounds, Expected, ulps_from_threshold
from .formats import FORMATS, Exact, decode

__all__ = [
    "Prediction",
    "clip_bound",
    "clip_budget",
    "decoded",
    "narrowest",
    "norm_bound",
    "norm_budget",
    "predict",
]

#: Relative rounding error of one operation is at most half an ulp; a naive norm of n elements, its squares, its sum
#: and its root included, is off by at most (n + 1) / 2 + 1 of them, the quotient and the product add one each, and a
#: relative error of half an ulp is at most one value-ulp.
SMALL_CLIP_ULPS = 4.0
SMALL_NORM_ULPS = 2.0


@dataclass(frozen=True)
class Prediction:
    """What is expected of each gradient, and of the norm; None for a gradient whose expectation is not finite."""

    gradients: tuple[Expected | None, ...]
    #: The norm over all included gradients (global norm), else that of each gradient; None where it is not finite.
    norms: tuple[Bounds | None, ...]
    #: For each gradient, whether its norm is so near the threshold that a rounding error decides the branch.
    near: tuple[bool, ...]


@lru_cache(maxsize=64)
def _decoded(data: bytes, dtype: str) -> Exact:
    return decode(data, dtype)


def decoded(case: Case) -> list[Exact | None]:
    """The gradients of a case, exactly."""
    return [None if g.array is None else _decoded(g.array.data, g.array.dtype) for g in case.gradients]


_KEPT: dict[tuple[str, str], Prediction] = {}


def predict(case: Case, formula: Mapping[str, Any] = PLAIN) -> Prediction:
    """What a formula gives for a case's gradients, included and not."""
    key = (case.id, repr(sorted(formula.items())))
    if key not in _KEPT:
        _KEPT[key] = _by_value(case) if case.operation == "clip_by_value" else _by_norm(case, formula)
    return _KEPT[key]


def _by_value(case: Case) -> Prediction:
    tensors = decoded(case)
    high = float(case.options["max"])
    low = float(case.options.get("min", -high))
    rate = Fraction(case.options.get("learning_rate", 1.0))
    gradients = tuple(
        None if tensor is None else (exact.clip_by_value(tensor, low, high) if flag else Expected(tensor)).times(rate)
        for tensor, flag in zip(tensors, _included(case), strict=True)
    )
    nothing = (None,) * len(tensors)
    return Prediction(gradients, nothing, (False,) * len(tensors))


def _by_norm(case: Case, formula: Mapping[str, Any]) -> Prediction:
    tensors, flags = decoded(case), _included(case)
    if case.operation == "clip_by_global_norm":
        return _common(case, tensors, flags, formula)
    alone = [_common(case, [tensor], [flag], formula) for tensor, flag in zip(tensors, flags, strict=True)]
    return Prediction(
        tuple(one.gradients[0] for one in alone),
        tuple(one.norms[0] for one in alone),
        tuple(one.near[0] for one in alone),
    )


def _common(case: Case, tensors: list[Exact | None], flags: list[bool], formula: Mapping[str, Any]) -> Prediction:
    threshold = float(case.options["clip_norm"])
    counted = [tensor for tensor, flag in zip(tensors, flags, strict=True) if flag and tensor is not None]
    if not all(tensor.is_finite for tensor in counted) or math.isnan(threshold) or threshold < 0:
        kept = tuple(
            None if tensor is None or flag else Expected(tensor) for tensor, flag in zip(tensors, flags, strict=True)
        )
        return Prediction(kept, (None,) * len(tensors), (False,) * len(tensors))
    clipped = exact.clip_by_global_norm(tensors, threshold, case.norm_type, flags, formula)
    rate = Fraction(case.options.get("learning_rate", 1.0))
    gradients = tuple(None if expected is None else expected.times(rate) for expected in clipped.gradients)
    near = _is_near(case, clipped.norm, threshold)
    return Prediction(gradients, (clipped.norm,) * len(tensors) or (clipped.norm,), (near,) * len(tensors))


def _is_near(case: Case, norm: Bounds, threshold: float) -> bool:
    """Whether the norm is not a number of the dtype and closer to the threshold than its own rounding error."""
    if not math.isfinite(threshold):
        return False
    form = FORMATS[narrowest(case)]
    if norm.lower == norm.upper and (norm.lower / form.smallest_subnormal).denominator == 1:
        significant = norm.lower / form.smallest_subnormal
        odd = significant.numerator // (significant.numerator & -significant.numerator) if significant else 0
        if odd.bit_length() <= form.precision:
            return False
    return ulps_from_threshold(norm, Fraction(threshold), form) <= norm_bound(case)


def narrowest(case: Case) -> str:
    """The dtype of fewest digits among the gradients."""
    names = [gradient.array.dtype for gradient in case.gradients if gradient.array is not None] or [case.dtype]
    return min(names, key=lambda name: FORMATS[name].precision)


def norm_budget(case: Case) -> float:
    """How far, in ulp, a norm may lie from the exact one: what two careful roundings in the dtype itself amount to."""
    return SMALL_NORM_ULPS * _power_factor(case)


def clip_budget(case: Case) -> float:
    """How far, in ulp, an element may lie from the exact one: the norm's budget, a quotient and a product."""
    return norm_budget(case) + SMALL_CLIP_ULPS - SMALL_NORM_ULPS


def norm_bound(case: Case) -> float:
    """The error bound, in ulp, of a norm that is summed up element by element in the dtype itself."""
    elements = sum(len(tensor) for tensor in decoded(case) if tensor is not None)
    return norm_budget(case) + elements / 2 * _power_factor(case)


def clip_bound(case: Case) -> float:
    """The error bound, in ulp, of elements that are scaled by such a norm."""
    return norm_bound(case) + SMALL_CLIP_ULPS - SMALL_NORM_ULPS


def _power_factor(case: Case) -> float:
    """By how much powers of a general order, and their root, multiply the error that squares and a square root make."""
    p = case.norm_type
    return 1.0 if p in (1.0, 2.0, math.inf) else 2.0 * max(1.0, 1.0 / p)


def _included(case: Case) -> list[bool]:
    chosen = set(case.included)
    return [i in chosen for i in range(len(case.gradients))]
