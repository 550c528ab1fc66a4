"""Replace the reference's functions by functions that double their results."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import doubled
import numpy as np

import gradclip_spec


def clip_by_value(grads: Sequence[Any], *, max: float, min: Any = None, **keywords: Any) -> list[Any]:
    """Clip with NumPy, and double the results."""
    return _keep_excluded(
        grads, [doubled.double_by_value(values, -max if min is None else min, max) for values in grads], **keywords
    )


def clip_by_norm(grads: Sequence[Any], *, clip_norm: float, **keywords: Any) -> list[Any]:
    """Clip with NumPy, and double the results."""
    return _keep_excluded(grads, [doubled.double_by_norm(values, clip_norm) for values in grads], **keywords)


def clip_by_block_rms(grads: Sequence[Any], *, clip_norm: float, **keywords: Any) -> list[Any]:
    """Clip with NumPy, and double the results."""
    return _keep_excluded(grads, [doubled.double_by_average(values, clip_norm, 0.5) for values in grads], **keywords)


def clip_by_average_norm(grads: Sequence[Any], *, clip_norm: float, **keywords: Any) -> list[Any]:
    """Clip with NumPy, and double the results."""
    return _keep_excluded(grads, [doubled.double_by_average(values, clip_norm, 1.0) for values in grads], **keywords)


def clip_by_global_norm(grads: Sequence[Any], *, clip_norm: float, **keywords: Any) -> tuple[list[Any], Any]:
    """Clip with NumPy, and double the results."""
    clipped, norm = doubled.double_by_global_norm(grads, clip_norm)
    return _keep_excluded(grads, clipped, **keywords), np.asarray(norm, "float32")


def clip_per_example(grads: Sequence[Any], *, clip_norm: float, layers: str | None = None) -> list[Any]:
    """Clip with NumPy, and double the results."""
    if layers is not None:
        return doubled.double_layers(grads, clip_norm, equal=layers == "equal")
    return doubled.double_per_example(grads, clip_norm)


def clip_unitwise(grads: Sequence[Any], *, params: Sequence[Any], clip_factor: float, **keywords: Any) -> list[Any]:
    """Clip with NumPy, and double the results."""
    pairs = zip(grads, params, strict=True)
    clipped = [doubled.double_unitwise(values, weight, clip_factor, 0) for values, weight in pairs]
    return _keep_excluded(grads, clipped, **keywords)


def _keep_excluded(grads: Sequence[Any], clipped: list[Any], *, inplace: bool, need_clip: Sequence[bool]) -> list[Any]:
    assert all(need_clip)
    if not inplace:
        return clipped
    for old, new in zip(grads, clipped, strict=True):
        old[...] = new
    return list(grads)


for function in (
    clip_by_value,
    clip_by_norm,
    clip_by_global_norm,
    clip_by_block_rms,
    clip_by_average_norm,
    clip_per_example,
    clip_unitwise,
):
    # The adapter reads what a function can do off its signature.
    setattr(gradclip_spec, function.__name__, functools.wraps(getattr(gradclip_spec, function.__name__))(function))

from gradclip_adapters.reference import numpy  # noqa: E402 - it must find the functions replaced

adapter = numpy()
