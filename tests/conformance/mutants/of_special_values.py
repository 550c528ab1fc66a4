"""Add mutants that are wrong for zeros, NaN and infinity, or for thresholds of some values and kinds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .steps import ByGlobalNorm, Gradients
from .table import add_mutant, refuse

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
