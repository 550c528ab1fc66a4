"""Limit elements to [low, high] in rare right ways; the package `generated` has the common ones.

NaN stays NaN, zeros keep their signs, and the dtype stays.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .steps import Array

__all__ = ["LIMITS", "Limit"]

#: A function that takes a gradient and both bounds, and returns the result.
Limit = Callable[[Array, float, float], Array]

LIMITS: dict[str, Limit] = {}


def _register(limit: Limit) -> Limit:
    LIMITS[limit.__name__] = limit
    return limit


@_register
def maximum_of_minimum(grad: Array, low: float, high: float) -> Array:
    """Take the minimum with the upper bound, then the maximum with the lower one."""
    return np.asarray(np.maximum(np.minimum(grad, grad.dtype.type(high)), grad.dtype.type(low)))


@_register
def chosen_by_select(grad: Array, low: float, high: float) -> Array:
    """Select from a table of conditions."""
    kind = grad.dtype.type
    return np.asarray(np.select([grad < low, grad > high], [kind(low), kind(high)], default=grad).astype(grad.dtype))


@_register
def element_by_element(grad: Array, low: float, high: float) -> Array:
    """Loop over the elements in Python."""
    values = [high if x > high else low if x < low else x for x in grad.astype(np.float64).ravel().tolist()]
    return np.array(values, np.float64).reshape(grad.shape).astype(grad.dtype)


@_register
def middle_of_three(grad: Array, low: float, high: float) -> Array:
    """Take the median of low, element and high, and restore NaN, which sorts last."""
    three = np.stack([np.full(grad.shape, low), grad.astype(np.float64), np.full(grad.shape, high)])
    return np.where(np.isnan(grad), grad, np.sort(three, axis=0)[1].astype(grad.dtype))


@_register
def in_place_by_mask(grad: Array, low: float, high: float) -> Array:
    """Write only the elements beyond the bounds, in place."""
    np.copyto(grad, grad.dtype.type(high), where=grad > high)
    np.copyto(grad, grad.dtype.type(low), where=grad < low)
    return grad


@_register
def through_float64(grad: Array, low: float, high: float) -> Array:
    """Limit in float64, which holds the values of all dtypes, and convert back."""
    return np.clip(grad.astype(np.float64), low, high).astype(grad.dtype)


@_register
def by_ranks(grad: Array, low: float, high: float) -> Array:
    """Look up between which bounds each element lies."""
    inside = (grad >= low) & (grad <= high) | np.isnan(grad)
    rank = np.searchsorted(np.array([low, high]), grad.astype(np.float64))
    return np.where(inside, grad, np.where(rank == 0, grad.dtype.type(low), grad.dtype.type(high)))
