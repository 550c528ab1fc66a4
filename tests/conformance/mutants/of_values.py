"""Add mutants of the clip by value, and mutants that are wrong for thresholds or elements of some values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, ByValue, Gradients
from .table import add_mutant, refuse

# The bounds of a clip by value.

add_mutant(
    "has no lower bound if min is not passed",
    "value.min-defaults-to-minus-max",
    causes=["value-one-sided"],
    fill_bounds=lambda self, low, high: (-math.inf if low is None else low, high),
)
add_mutant(
    "treats a min of 0 as not passed",
    "value.bounds",
    causes=["value-bounds-mirrored", "value-one-sided", "unexplained"],
    fill_bounds=lambda self, low, high: (low or -high, high),
)
add_mutant(
    "exchanges the bounds",
    "value.bounds",
    causes=["value-bounds-exchanged"],
    fill_bounds=lambda self, low, high: self.right.fill_bounds(low, high)[::-1],
)
add_mutant(
    "truncates the bounds to integers",
    "value.power-of-two-scaling",
    causes=["threshold-rounded"],
    limit=lambda self, grad, low, high: self.right.limit(grad, np.trunc(low), np.trunc(high)),
)


@np.errstate(over="ignore")
def _round_bounds(self: ByValue, grad: Array, low: float, high: float) -> Any:
    return self.right.limit(grad, float(np.float16(low)), float(np.float16(high)))


add_mutant(
    "rounds the bounds to float16",
    "value.bounds-rounded",
    causes=["value-bounds-rounded"],
    limit=_round_bounds,
)
add_mutant(
    "refuses a max of 0",
    "value.zero-threshold",
    causes=["raises"],
    fill_bounds=lambda self, low, high: self.right.fill_bounds(low, high or refuse("max must be positive")),
)
add_mutant(
    "treats a bound of -0.0 as no bound",
    "value.minus-zero-threshold",
    causes=["not-clipped", "value-one-sided"],
    limit=lambda self, grad, low, high: grad if str(high) == "-0.0" else self.right.limit(grad, low, high),
)
add_mutant(
    "does not clip if a bound is infinite",
    "value.infinite-bounds",
    causes=["not-clipped", "value-one-sided"],
    limit=lambda self, grad, low, high: (
        grad if math.isinf(low) or math.isinf(high) else self.right.limit(grad, low, high)
    ),
)

# The elements of a clip by value.

add_mutant(
    "clips only the first tensor",
    "value.tensor-order",
    causes=["not-clipped"],
    select_included=lambda self, grads, need_clip: self.right.select_included(grads, need_clip)[:1],
)
add_mutant(
    "does not clip gradients of fewer than four elements",
    "value.splitting-and-joining",
    causes=["not-clipped"],
    hand_back=lambda self, grad, result: result if grad.size > 3 else grad,
)
add_mutant(
    "clips in float16",
    "value.inside-unchanged",
    causes=["narrower-arithmetic"],
    limit=lambda self, grad, low, high: self.right.limit(grad.astype(np.float16), low, high).astype(grad.dtype),
)
add_mutant(
    "does not clip infinity",
    "value.infinity-clipped",
    causes=["not-clipped"],
    hand_back=lambda self, grad, result: np.where(np.isinf(grad), grad, result),
)
add_mutant(
    "replaces NaN by 0 in gradients of 201 to 1,999 elements",
    "value.nan-stays",
    causes=["value-nan-lost"],
    dtypes=["float16", "float64"],
    hand_back=lambda self, grad, result: np.nan_to_num(result) if 200 < grad.size < 2000 else result,
)

# Zeros.

add_mutant(
    "returns NaN for a gradient of zeros, because clip_norm / 0 is infinite",
    "*.zero-gradient",
    causes=["zero-norm-nan", "zero-over-zero"],
    clip=lambda self, grad, clip_norm, norm: (
        np.full_like(grad, np.nan) if norm == 0 else self.right.clip(grad, clip_norm, norm)
    ),
)
add_mutant(
    "divides 0 by 0 if both the threshold and the norm are 0",
    "*.zero-gradient-zero-threshold",
    causes=["zero-over-zero"],
    clip=lambda self, grad, clip_norm, norm: (
        np.full_like(grad, np.nan) if norm == clip_norm == 0 else self.right.clip(grad, clip_norm, norm)
    ),
)
add_mutant(
    "does not clip if the threshold is 0",
    "*.zero-threshold",
    causes=["not-clipped"],
    is_above=lambda self, norm, clip_norm: clip_norm != 0 and not norm <= clip_norm,
)
add_mutant(
    "replaces a threshold of 0 by 1e-6",
    "norm.zero-threshold",
    "global-norm.zero-threshold",
    causes=["threshold-replaced"],
    clip=lambda self, grad, clip_norm, norm: self.right.clip(grad, clip_norm or 1e-6, norm),
)
add_mutant(
    "adds 0.0 to every result, which turns -0.0 into 0.0",
    "value.inside-unchanged",
    "norm.identity-below",
    "global-norm.identity-below",
    hand_back=lambda self, grad, result: result + grad.dtype.type(0),
)
add_mutant(
    "replaces each zero in the results by 1e-6",
    "*.signs-kept",
    hand_back=lambda self, grad, result: np.where(result == 0, grad.dtype.type(1e-6), result),
)

# NaN and infinity in the gradients.

add_mutant(
    "does not clip if the norm is NaN, because `NaN > clip_norm` is false",
    "*.nan-not-silent",
    causes=["nonfinite-silent"],
    is_above=lambda self, norm, clip_norm: norm > clip_norm,
)
add_mutant(
    "does not clip if the norm is NaN or infinite",
    "*.infinity-not-silent",
    causes=["nonfinite-silent"],
    is_above=lambda self, norm, clip_norm: clip_norm < norm < math.inf,
)

# The option `error_if_nonfinite`, and what is returned without it.

add_mutant(
    "ignores `error_if_nonfinite`",
    "global-norm.error-if-nonfinite",
    causes=["error-flag-ignored"],
    refuse_nonfinite=lambda self, grads, norms: None,
)
add_mutant(
    "raises the requested error also for NaN and infinity in excluded gradients",
    "global-norm.error-if-nonfinite",
    causes=["raises"],
    refuse_nonfinite=lambda self, grads, norms: self.right.refuse_nonfinite(
        grads, [float(np.sum(np.abs(grad))) for grad in grads if grad is not None]
    ),
)


def _zero_gradients_before_raising(self: ByGlobalNorm, grads: Gradients, norms: Sequence[float]) -> None:
    if not math.isfinite(norms[0]) and len(grads) > 2:
        for grad in grads:
            grad[...] = 0
    self.right.refuse_nonfinite(grads, norms)


add_mutant(
    "sets more than two gradients to zero before it raises the error",
    "global-norm.error-if-nonfinite-atomic",
    causes=["inputs-changed"],
    refuse_nonfinite=_zero_gradients_before_raising,
)
add_mutant(
    "returns infinity in place of NaN",
    "global-norm.returned-norm-nonfinite",
    report_norm=lambda self, total, clip_norm: math.inf if math.isnan(total) else total,
)

# Thresholds of some values.

add_mutant(
    "scales by a negative threshold, which turns the signs",
    "*.negative-threshold-refused",
    causes=["negative-threshold"],
    check=lambda self, clip_norm: None,
)
add_mutant(
    "refuses -0.0 as if it were negative",
    "*.minus-zero-threshold",
    causes=["raises"],
    check=lambda self, clip_norm: self.right.check(math.copysign(1, clip_norm)),
)
add_mutant(
    "multiplies by clip_norm / max(norm, clip_norm), which is NaN for an infinite threshold",
    "*.infinite-threshold",
    causes=["infinite-threshold-nan"],
    clip=lambda self, grad, clip_norm, norm: (
        np.full_like(grad, np.nan) if clip_norm == math.inf else self.right.clip(grad, clip_norm, norm)
    ),
)
add_mutant(
    "replaces NaN and infinity by finite numbers if the threshold is infinite",
    "*.infinite-threshold-nonfinite",
    causes=["nonfinite-silent", "unexplained"],
    clip=lambda self, grad, clip_norm, norm: (
        np.nan_to_num(grad) if clip_norm == math.inf else self.right.clip(grad, clip_norm, norm)
    ),
)

# Thresholds of some kinds.


def _take_floats_alone(threshold: object) -> float:
    return threshold if isinstance(threshold, float) else refuse(f"{threshold!r} is not a float", TypeError)


add_mutant(
    "refuses a threshold that is not a Python float",
    "*.integer-threshold",
    "*.numpy-threshold",
    causes=["raises"],
    check=lambda self, clip_norm: self.right.check(_take_floats_alone(clip_norm)),
    fill_bounds=lambda self, low, high: self.right.fill_bounds(low, _take_floats_alone(high)),
)
