"""Scale a gradient of known norm in many right ways: by branches, by coefficients, in place."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .steps import Array

__all__ = ["SCALINGS", "Scaling"]

#: A function that takes a gradient, the threshold and the norm, and returns the result.
Scaling = Callable[[Array, float, float], Array]

SCALINGS: dict[str, Scaling] = {}


def _register(scaling: Scaling) -> Scaling:
    SCALINGS[scaling.__name__] = scaling
    return scaling


@_register
def branch(grad: Array, clip_norm: float, norm: float) -> Array:
    """Return the gradient itself if its norm is at most the threshold; otherwise scale it, also if the norm is NaN."""
    if norm <= clip_norm:
        return grad
    wide = grad.astype(np.longdouble)
    return np.asarray(wide * np.longdouble(clip_norm) / np.longdouble(norm)).astype(grad.dtype)


@_register
def least_coefficient(grad: Array, clip_norm: float, norm: float) -> Array:
    """Multiply by the lesser of 1 and clip_norm / norm, with a guard against a zero norm."""
    quotient = np.longdouble(clip_norm) / np.longdouble(norm) if norm else np.longdouble(1)
    coefficient = np.minimum(np.longdouble(1), quotient)
    return np.asarray(grad.astype(np.longdouble) * coefficient).astype(grad.dtype)


@_register
def larger_divisor(grad: Array, clip_norm: float, norm: float) -> Array:
    """Multiply by clip_norm and divide by max(norm, clip_norm), with a guard against zero and infinity."""
    divisor = float(np.maximum(norm, clip_norm))
    if divisor == 0 or clip_norm == math.inf:
        return grad
    return np.asarray(grad.astype(np.longdouble) * np.longdouble(clip_norm) / np.longdouble(divisor)).astype(grad.dtype)


@_register
def where_form(grad: Array, clip_norm: float, norm: float) -> Array:
    """Compute both branches and select one."""
    divisor = np.longdouble(norm if norm else 1.0)
    finite = np.longdouble(clip_norm if math.isfinite(clip_norm) else 0.0)
    scaled = grad.astype(np.longdouble) * finite / divisor
    return np.where(norm <= clip_norm, grad, scaled.astype(grad.dtype))


@_register
def in_place(grad: Array, clip_norm: float, norm: float) -> Array:
    """Write the result into the gradient."""
    if not norm <= clip_norm:
        grad[...] = grad.astype(np.longdouble) * np.longdouble(clip_norm) / np.longdouble(norm)
    return grad
