"""What a formula predicts for a case: the oracles, applied to a call.

The neutral rule is the formula `plain`; a framework's own formula is another one. Predictions are kept, because every
subject of every framework is held against the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from gradclip_adapters.contract import Array

from ..cases.model import Case
from . import agreement
from .bounds import NOTHING, ErrorBounds, error_bounds
from .formats import FORMATS, Exact, Format, decode, float_quotient, power_of_two, round_to, value_of
from .integers import norm as exact_norm
from .model import PLAIN, Bounds, Expected, ulps_from_threshold

__all__ = ["Prediction", "clip_bound", "clip_budget", "decoded", "narrowest", "norm_bound", "norm_budget", "predict"]


@dataclass(frozen=True)
class Prediction:
    """What is expected of each gradient; None for one whose expectation is not finite, or that does not exist."""

    gradients: tuple[Expected | None, ...]
    #: The norm over all included gradients (global norm), else that of each gradient; None where it is not finite.
    norms: tuple[Bounds | None, ...]
    #: For each gradient, whether its norm is so near the threshold that a rounding error decides the branch.
    near: tuple[bool, ...]
    #: For each gradient, how far it may lie from what is expected.
    errors: tuple[ErrorBounds, ...]
    #: What `measure` has found already: many gradients, and many subjects' answers, are the same.
    measured: dict[tuple[object, ...], Any] = field(default_factory=dict, compare=False, repr=False)


@lru_cache(maxsize=64)
def _decoded(data: bytes, dtype: str) -> Exact:
    return decode(data, dtype)


def decoded(case: Case) -> list[Exact | None]:
    """The gradients of a case, exactly."""
    return [None if g.array is None else _decoded(g.array.data, g.array.dtype) for g in case.gradients]


_KEPT: dict[tuple[object, ...], Prediction] = {}
_MOST_KEPT = 4096


def predict(case: Case, formula: Mapping[str, Any] = PLAIN) -> Prediction:
    """What a formula gives for a case's gradients, included and not.

    Raises
    ------
    OraclesDisagreeError
        When the two oracles contradict each other.
    """
    key = (
        # Of one gradient the common norm is its own.
        "clip_by_norm" if case.operation == "clip_by_global_norm" and len(case.gradients) == 1 else case.operation,
        tuple((gradient.array, gradient.need_clip) for gradient in case.gradients),
        tuple(sorted(case.options.items())),
        tuple(sorted(formula.items())),
        case.dtype,
    )
    if key not in _KEPT:
        while len(_KEPT) >= _MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
        _KEPT[key] = _by_value(case) if case.operation == "clip_by_value" else _by_norm(case, formula)
    return _KEPT[key]


def _by_value(case: Case) -> Prediction:
    tensors, flags = decoded(case), _included(case)
    high = float(case.options["max"])
    low = float(case.options.get("min", -high))
    if math.isnan(low) or math.isnan(high) or low > high:
        return _without_expectation(tensors, flags)
    rate = Fraction(case.options.get("learning_rate", 1.0))
    # Of thousands of gradients many are the same.
    known: dict[tuple[Array | None, bool], Expected | None] = {}
    keys = [(gradient.array, flag) for gradient, flag in zip(case.gradients, flags, strict=True)]
    for key, tensor in zip(keys, tensors, strict=True):
        if key not in known:
            known[key] = _clipped_by_value(tensor, low, high, included=key[1], rate=rate)
    count = len(tensors)
    return Prediction(tuple(known[key] for key in keys), (None,) * count, (False,) * count, (NOTHING,) * count)


def _clipped_by_value(
    tensor: Exact | None, low: float, high: float, *, included: bool, rate: Fraction
) -> Expected | None:
    if tensor is None:
        return None
    return (agreement.clip_by_value(tensor, low, high) if included else Expected(tensor)).times(rate)


def _without_expectation(tensors: Sequence[Exact | None], flags: Sequence[bool]) -> Prediction:
    """Of included gradients nothing is expected; the excluded ones stay what they are."""
    kept = tuple(
        None if tensor is None or flag else Expected(tensor) for tensor, flag in zip(tensors, flags, strict=True)
    )
    count = len(tensors)
    return Prediction(kept, (None,) * max(count, 1), (False,) * count, (NOTHING,) * count)


def _by_norm(case: Case, formula: Mapping[str, Any]) -> Prediction:
    tensors, flags = decoded(case), _included(case)
    if case.operation == "clip_by_global_norm":
        return _common(case, tensors, flags, formula)
    # Of thousands of gradients many are the same.
    known: dict[tuple[Array | None, bool], Prediction] = {}
    for gradient, tensor, flag in zip(case.gradients, tensors, flags, strict=True):
        if (gradient.array, flag) not in known:
            known[gradient.array, flag] = _common(case, [tensor], [flag], formula, gradient.array)
    alone = [known[gradient.array, flag] for gradient, flag in zip(case.gradients, flags, strict=True)]
    return Prediction(
        tuple(one.gradients[0] for one in alone),
        tuple(one.norms[0] for one in alone),
        tuple(one.near[0] for one in alone),
        tuple(one.errors[0] for one in alone),
    )


def _common(
    case: Case,
    tensors: list[Exact | None],
    flags: list[bool],
    formula: Mapping[str, Any],
    alone: Array | None = None,
) -> Prediction:
    threshold = float(case.options["clip_norm"])
    counted = [tensor for tensor, flag in zip(tensors, flags, strict=True) if flag and tensor is not None]
    if not all(tensor.is_finite for tensor in counted) or math.isnan(threshold) or threshold < 0:
        return _without_expectation(tensors, flags)
    clipped = agreement.clip_by_norm(tensors, flags, threshold, case.norm_type, formula)
    rate = Fraction(case.options.get("learning_rate", 1.0))
    gradients = tuple(None if expected is None else expected.times(rate) for expected in clipped.gradients)
    form, size = (
        FORMATS[narrowest(case) if alone is None else alone.dtype],
        float_quotient(clipped.norm.middle, Fraction(1)),
    )
    errors = error_bounds(form, case.norm_type, sum(map(len, counted)), size)
    # The formula of this kind compares norm + eps with the threshold.
    shift = Fraction(formula.get("eps", 0.0)) if formula["kind"] == "coefficient" else Fraction(0)
    near = (
        math.isfinite(threshold)
        and ulps_from_threshold(clipped.norm, Fraction(threshold) - shift, form) <= errors.norm_bound
        and not (shift == 0 and _is_exact(clipped.norm, counted, case.norm_type, form))
    )
    count = len(tensors)
    return Prediction(gradients, (clipped.norm,) * max(count, 1), (near,) * count, (errors,) * count)


def _is_exact(norm: Bounds, tensors: Sequence[Exact], p: float, form: Format) -> bool:
    """Whether arithmetic in the format gives the norm without any rounding, in whatever order it sums."""
    if p == math.inf:
        return True
    if p not in (1.0, 2.0) or norm.lower != norm.upper or norm.power is None or not _is_number(norm.lower, form):
        return False
    # In units of which every term is a multiple, so that no partial sum has more digits than the format.
    lowest = min((_unit_exponent(tensor) for tensor in tensors if any(tensor.integers)), default=0)
    if norm.power / power_of_two(int(p) * lowest) > 2**form.precision:
        return False
    if p == 1.0 or len(tensors) == 1:
        return True
    alone = [exact_norm([tensor]) for tensor in tensors]
    return all(one.lower == one.upper and _is_number(one.lower, form) for one in alone)


def _unit_exponent(tensor: Exact) -> int:
    """The exponent of the greatest power of two of which all elements are multiples; one of them is not zero."""
    bits = 0
    for integer in tensor.integers:
        bits |= abs(integer)
    return tensor.exponent + (bits & -bits).bit_length() - 1


def _is_number(value: Fraction, form: Format) -> bool:
    return value <= form.largest and value_of(round_to(value, form), form) == value


def narrowest(case: Case) -> str:
    """The dtype of fewest digits among the gradients that are included."""
    arrays = [case.gradients[i].array for i in case.included]
    names = [array.dtype for array in arrays if array is not None] or [case.dtype.partition("+")[0]]
    return min(names, key=lambda name: FORMATS[name].precision)


def norm_budget(case: Case) -> float:
    """How far, in ulp, the norm may lie from the exact one to pass."""
    return max((error.norm_budget for error in predict(case).errors), default=0.0)


def norm_bound(case: Case) -> float:
    """How far, in ulp, the norm may lie from the exact one not to fail."""
    return max((error.norm_bound for error in predict(case).errors), default=0.0)


def clip_budget(case: Case) -> float:
    """How far, in ulp, an element may lie from the exact one to pass."""
    return max((error.clip_budget for error in predict(case).errors), default=0.0)


def clip_bound(case: Case) -> float:
    """How far, in ulp, an element may lie from the exact one not to fail."""
    return max((error.clip_bound for error in predict(case).errors), default=0.0)


def _included(case: Case) -> list[bool]:
    chosen = set(case.included)
    return [i in chosen for i in range(len(case.gradients))]
