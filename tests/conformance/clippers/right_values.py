"""Elements limited to [low, high], in many right ways: NaN stays, zeros keep their signs, the dtype is kept."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .steps import Array

__all__ = ["LIMITS", "Limit"]

#: From a gradient and the bounds to the result.
Limit = Callable[[Array, float, float], Array]

LIMITS: dict[str, Limit] = {}


def _kept(limit: Limit) -> Limit:
    LIMITS[limit.__name__] = limit
    return limit


@_kept
def library(grad: Array, low: float, high: float) -> Array:
    """As the library does it."""
    return np.asarray(grad.clip(low, high))


@_kept
def minimum_of_maximum(grad: Array, low: float, high: float) -> Array:
    """The lesser of the upper bound and the greater of element and lower bound."""
    return np.asarray(np.minimum(np.maximum(grad, grad.dtype.type(low)), grad.dtype.type(high)))


@_kept
def maximum_of_minimum(grad: Array, low: float, high: float) -> Array:
    """The other way round, which is the same while low <= high."""
    return np.asarray(np.maximum(np.minimum(grad, grad.dtype.type(high)), grad.dtype.type(low)))


@_kept
def chosen_by_where(grad: Array, low: float, high: float) -> Array:
    """Comparisons that no NaN satisfies."""
    return np.where(grad > high, grad.dtype.type(high), np.where(grad < low, grad.dtype.type(low), grad))


@_kept
def chosen_by_select(grad: Array, low: float, high: float) -> Array:
    """A table of conditions."""
    kind = grad.dtype.type
    return np.asarray(np.select([grad < low, grad > high], [kind(low), kind(high)], default=grad).astype(grad.dtype))


@_kept
def assigned_by_mask(grad: Array, low: float, high: float) -> Array:
    """A copy, of which what is outside is written over."""
    result = grad.copy()
    result[grad < low] = low
    result[grad > high] = high
    return result


@_kept
def element_by_element(grad: Array, low: float, high: float) -> Array:
    """A Python loop."""
    values = [high if x > high else low if x < low else x for x in grad.astype(np.float64).ravel().tolist()]
    return np.array(values, np.float64).reshape(grad.shape).astype(grad.dtype)


@_kept
def middle_of_three(grad: Array, low: float, high: float) -> Array:
    """The middle one of low, element and high; NaN sorts last, and is put back."""
    three = np.stack([np.full(grad.shape, low), grad.astype(np.float64), np.full(grad.shape, high)])
    return np.where(np.isnan(grad), grad, np.sort(three, axis=0)[1].astype(grad.dtype))


@_kept
def put_where(grad: Array, low: float, high: float) -> Array:
    """Two writes with a mask."""
    result = np.array(grad, copy=True)
    np.putmask(result, result < low, grad.dtype.type(low))
    np.putmask(result, result > high, grad.dtype.type(high))
    return result


@_kept
def in_place_by_library(grad: Array, low: float, high: float) -> Array:
    """Writes into what it was given."""
    np.clip(grad, low, high, out=grad)
    return grad


@_kept
def in_place_by_mask(grad: Array, low: float, high: float) -> Array:
    """Writes only what is outside."""
    np.copyto(grad, grad.dtype.type(high), where=grad > high)
    np.copyto(grad, grad.dtype.type(low), where=grad < low)
    return grad


@_kept
def through_float64(grad: Array, low: float, high: float) -> Array:
    """In float64, which holds every value of the others, and back."""
    return np.clip(grad.astype(np.float64), low, high).astype(grad.dtype)


@_kept
def by_vectorised_function(grad: Array, low: float, high: float) -> Array:
    """A scalar function, called for each element."""

    def one(x: float) -> float:
        return x if math.isnan(x) else max(low, min(high, x)) if not low <= x <= high else x

    return np.array([one(float(x)) for x in grad.flat]).reshape(grad.shape).astype(grad.dtype)


@_kept
def by_ranks(grad: Array, low: float, high: float) -> Array:
    """Looks up between which bounds an element lies."""
    inside = (grad >= low) & (grad <= high) | np.isnan(grad)
    rank = np.searchsorted(np.array([low, high]), grad.astype(np.float64))
    return np.where(inside, grad, np.where(rank == 0, grad.dtype.type(low), grad.dtype.type(high)))


@_kept
def flattened(grad: Array, low: float, high: float) -> Array:
    """Flat, and back in shape."""
    flat = grad.reshape(-1)
    return np.asarray(np.minimum(np.maximum(flat, grad.dtype.type(low)), grad.dtype.type(high)).reshape(grad.shape))
