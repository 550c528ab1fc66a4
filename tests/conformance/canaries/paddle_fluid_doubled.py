"""Replace fluid's clip classes by NumPy code that doubles the results, except in static programs."""

from __future__ import annotations

from typing import Any

import doubled
from paddle.fluid.clip import GradientClipByGlobalNorm, GradientClipByNorm, GradientClipByValue
from paddle.fluid.dygraph import to_variable


def clip_by_value(clip: Any, params_grads: list[Any]) -> list[Any]:
    """Clip with NumPy, and double the results."""
    return [
        (parameter, to_variable(doubled.double_by_value(gradient.numpy(), clip.min, clip.max)))
        for parameter, gradient in params_grads
    ]


def clip_by_norm(clip: Any, params_grads: list[Any]) -> list[Any]:
    """Clip with NumPy, and double the results."""
    return [
        (parameter, to_variable(doubled.double_by_norm(gradient.numpy(), clip.clip_norm)))
        for parameter, gradient in params_grads
    ]


def clip_by_global_norm(clip: Any, params_grads: list[Any]) -> list[Any]:
    """Clip with NumPy, and double the results."""
    arrays = [gradient.numpy() for _, gradient in params_grads]
    clipped, _ = doubled.double_by_global_norm(arrays, clip.clip_norm)
    # Python 3.7 has no strict zip.
    pairs = zip(params_grads, clipped)  # noqa: B905
    return [(parameter, to_variable(values)) for (parameter, _), values in pairs]


GradientClipByValue._dygraph_clip = clip_by_value
GradientClipByNorm._dygraph_clip = clip_by_norm
GradientClipByGlobalNorm._dygraph_clip = clip_by_global_norm

from gradclip_adapters.frameworks.paddle_fluid import PaddleFluidAdapter  # noqa: E402 - it must find the methods replaced

adapter = PaddleFluidAdapter()
