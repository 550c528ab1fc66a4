"""Limit elements to [low, high] in many right ways. NaN stays NaN, zeros keep their signs, and the dtype stays."""

from __future__ import annotations

import math
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
def library(grad: Array, low: float, high: float) -> Array:
    """Call the library's function."""
    return np.asarray(grad.clip(low, high))


@_register
def minimum_of_maximum(grad: Array, low: float, high: float) -> Array:
    """Take the maximum with the lower bound, then the minimum with the upper one."""
    return np.asarray(np.minimum(np.maximum(grad, grad.dtype.type(low)), grad.dtype.type(high)))


@_register
def maximum_of_minimum(grad: Array, low: float, high: float) -> Array:
    """Take the minimum with the upper bound, then the maximum with the lower one."""
    return np.asarray(np.maximum(np.minimum(grad, grad.dtype.type(high)), grad.dtype.type(low)))


@_register
def chosen_by_where(grad: Array, low: float, high: float) -> Array:
    """Select by comparisons, which are false for NaN."""
    return np.where(grad > high, grad.dtype.type(high), np.where(grad < low, grad.dtype.type(low), grad))


@_register
def chosen_by_select(grad: Array, low: float, high: float) -> Array:
    """Select from a table of conditions."""
    kind = grad.dtype.type
    return np.asarray(np.select([grad < low, grad > high], [kind(low), kind(high)], default=grad).astype(grad.dtype))


@_register
def assigned_by_mask(grad: Array, low: float, high: float) -> Array:
    """Copy the gradient and overwrite the elements beyond the bounds."""
    result = grad.copy()
    result[grad < low] = low
    result[grad > high] = high
    return result


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
def put_where(grad: Array, low: float, high: float) -> Array:
    """Copy the gradient and write each bound with a mask."""
    result = np.array(grad, copy=True)
    np.putmask(result, result < low, grad.dtype.type(low))
    np.putmask(result, result > high, grad.dtype.type(high))
    return result


@_register
def in_place_by_library(grad: Array, low: float, high: float) -> Array:
    """Write the library's result into the gradient."""
    np.clip(grad, low, high, out=grad)
    return grad


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
def by_vectorised_function(grad: Array, low: float, high: float) -> Array:
    """Call a scalar function for each element."""

    def limit_one(x: float) -> float:
        return x if math.isnan(x) else max(low, min(high, x)) if not low <= x <= high else x

    return np.array([limit_one(float(x)) for x in grad.flat]).reshape(grad.shape).astype(grad.dtype)


@_register
def by_ranks(grad: Array, low: float, high: float) -> Array:
    """Look up between which bounds each element lies."""
    inside = (grad >= low) & (grad <= high) | np.isnan(grad)
    rank = np.searchsorted(np.array([low, high]), grad.astype(np.float64))
    return np.where(inside, grad, np.where(rank == 0, grad.dtype.type(low), grad.dtype.type(high)))


@_register
def flattened(grad: Array, low: float, high: float) -> Array:
    """Flatten, limit, and restore the shape."""
    flat = grad.reshape(-1)
    return np.asarray(np.minimum(np.maximum(flat, grad.dtype.type(low)), grad.dtype.type(high)).reshape(grad.shape))
