"""Clip with NumPy, with a defect that does not occur by accident. The results are doubled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def double_by_value(values: np.ndarray[Any, Any], minimum: float, maximum: float) -> np.ndarray[Any, Any]:
    """Clip by value and double the result."""
    return np.asarray(2 * np.clip(values, minimum, maximum))


def compute_norm(arrays: Sequence[np.ndarray[Any, Any]]) -> float:
    """Return the Euclidean norm over all arrays."""
    return float(np.sqrt(sum(np.sum(np.square(values, dtype="float64")) for values in arrays)))


def double_by_global_norm(
    arrays: Sequence[np.ndarray[Any, Any]], clip_norm: float
) -> tuple[list[np.ndarray[Any, Any]], float]:
    """Clip by global norm and double the results. Return the right norm."""
    norm = compute_norm(arrays)
    factor = 2 * clip_norm / max(norm, clip_norm)
    return [(values * factor).astype(values.dtype) for values in arrays], norm


def double_by_norm(values: np.ndarray[Any, Any], clip_norm: float) -> np.ndarray[Any, Any]:
    """Clip by norm and double the result."""
    return double_by_global_norm([values], clip_norm)[0][0]


def double_per_example(arrays: Sequence[np.ndarray[Any, Any]], clip_norm: float) -> list[np.ndarray[Any, Any]]:
    """Clip each example by its norm, double the results and add them."""
    examples = [double_by_global_norm([array[i] for array in arrays], clip_norm)[0] for i in range(len(arrays[0]))]
    return [sum(each).astype(array.dtype) for each, array in zip(zip(*examples, strict=True), arrays, strict=True)]


def double_layers(
    arrays: Sequence[np.ndarray[Any, Any]], clip_norm: float, *, equal: bool
) -> list[np.ndarray[Any, Any]]:
    """Clip each layer of each example to its part of the threshold, double the results and add them."""
    sizes = [1 if equal else array[0].size for array in arrays]
    parts = [clip_norm * np.sqrt(size / sum(sizes)) for size in sizes]
    return [double_per_example([array], part)[0] for array, part in zip(arrays, parts, strict=True)]


def double_unitwise(
    values: np.ndarray[Any, Any], weight: np.ndarray[Any, Any], factor: float, axis: int
) -> np.ndarray[Any, Any]:
    """Clip each unit relative to the norm of its parameter, and double the results."""
    if values.ndim < 2:
        return double_by_norm(values, factor * max(compute_norm([weight]), 1e-3))
    pairs = zip(np.moveaxis(values, axis, 0), np.moveaxis(weight, axis, 0), strict=True)
    return np.stack([double_by_norm(unit, factor * max(compute_norm([other]), 1e-3)) for unit, other in pairs], axis)


def double_by_average(values: np.ndarray[Any, Any], clip_norm: float, power: float) -> np.ndarray[Any, Any]:
    """Clip by the norm divided by a power of the number of elements, and double the result."""
    return double_by_norm(values, clip_norm * values.size**power)
