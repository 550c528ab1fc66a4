"""Adapt thinc: `grad_clip` of an optimizer, and `NumpyOps.clip_gradient`, which it calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from thinc.about import __version__
from thinc.api import SGD, get_current_ops

from ..contract import About, EntryPoint
from .answering import CALLS, LAYOUTS, ArrayListAdapter, apply_to_each

DTYPES = ("float16", "float32", "float64")
FEATURES = (*CALLS, *LAYOUTS, "mixed_dtypes", "repeated", "threads")


class ThincAdapter(ArrayListAdapter):
    """Adapter for the clips of thinc on NumPy."""

    def __init__(self) -> None:
        entry_points = [
            EntryPoint(name, "clip_by_norm", DTYPES, (*FEATURES, *more), clip=apply_to_each(function), one_by_one=True)
            for name, function, more in (
                ("thinc.api.SGD(grad_clip)", _step, ("optimizer", "learning_rate")),
                ("thinc.api.NumpyOps.clip_gradient", _clip, ("in_place",)),
            )
        ]
        super().__init__(About("thinc", __version__, {"ops": type(get_current_ops()).__name__}), entry_points)


def _step(gradient: Any, *, clip_norm: Any, learning_rate: float = 1.0, **more: Any) -> Any:
    """Return the negated weights after a step from zero."""
    optimizer = SGD(learning_rate, grad_clip=clip_norm, use_averages=False, **more)
    weights, _ = optimizer((0, "W"), np.zeros(gradient.shape, gradient.dtype), gradient)
    return np.zeros_like(weights) - weights


def _clip(gradient: Any, *, clip_norm: Any, **more: Any) -> Any:
    return get_current_ops().clip_gradient(gradient, clip_norm, **more)
