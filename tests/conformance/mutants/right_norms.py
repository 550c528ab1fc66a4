"""Compute the norm over all elements of some tensors in many right ways. The package `generated` has common ways.

A way is right if no square leaves the range, no sum is kept in half precision, and a norm that can be exact is exact.
Exactness matters at the threshold, where only one answer is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from .steps import Array, multiply_by_power_of_two

__all__ = ["NORMS", "Norm"]

Norm = Callable[[Sequence[Array]], float]

NORMS: dict[str, Norm] = {}


def _register(norm: Norm) -> Norm:
    NORMS[norm.__name__] = norm
    return norm


def _flatten(tensors: Sequence[Array]) -> Array:
    """Return all elements in float64, which holds the values of every dtype."""
    return np.concatenate([np.zeros(0), *(np.asarray(tensor, np.float64).reshape(-1) for tensor in tensors)])


def _guard(tensors: Sequence[Array], compute_finite: Callable[[Array], float]) -> float:
    """Return NaN or infinity if an element is NaN or infinite; compute the norm only for finite values."""
    values = _flatten(tensors)
    if np.isnan(values).any():
        return math.nan
    return compute_finite(values) if np.isfinite(values).all() else math.inf


@_register
def long_double(tensors: Sequence[Array]) -> float:
    """Square in the platform's widest format, whose exponent range holds the squares of every float64."""
    return float(np.sqrt(sum((np.sum(np.square(t.astype(np.longdouble))) for t in tensors), np.longdouble(0))))


@_register
def dot_product(tensors: Sequence[Array]) -> float:
    """Scale the elements by a power of two, so that no square leaves the range, and call the library's product."""

    def compute_finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        unit = np.ldexp(values, -exponent)
        return multiply_by_power_of_two(math.sqrt(float(unit @ unit)), exponent)

    return _guard(tensors, compute_finite)


@_register
def library_norm_of_each(tensors: Sequence[Array]) -> float:
    """Take the library's norm of each scaled tensor, and the norm of these norms."""

    def compute_finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        squares = [np.linalg.norm(np.ldexp(np.asarray(t, np.longdouble), -exponent)) ** 2 for t in tensors]
        return multiply_by_power_of_two(float(np.sqrt(sum(squares, np.longdouble(0)))), exponent)

    return _guard(tensors, compute_finite)


@_register
def three_ranges(tensors: Sequence[Array]) -> float:
    """Sum large, small and medium elements separately, as old Fortran routines do, and combine the sums."""

    def compute_finite(values: Array) -> float:
        magnitudes = np.abs(values)
        parts = []
        for low, high, exponent in ((0.0, 1e-140, -600), (1e-140, 1e140, 0), (1e140, math.inf, 600)):
            chosen = np.ldexp(magnitudes[(magnitudes > low) & (magnitudes <= high)], -exponent)
            parts.append(np.ldexp(np.longdouble(np.sum(np.square(chosen))), 2 * exponent))
        return float(np.sqrt(sum(parts, np.longdouble(0))))

    return _guard(tensors, compute_finite)


@_register
def infinity_before_nan(tensors: Sequence[Array]) -> float:
    """Call `math.hypot` without a guard: infinity wins over NaN, as IEEE 754 says."""
    return math.hypot(*_flatten(tensors).tolist())
