"""Adapt Chainer: the hooks `GradientClipping` and `GradientHardClipping` of an optimizer."""

from __future__ import annotations

from typing import Any, Sequence

import chainer
import numpy as np
from chainer import optimizer_hooks

from ..contract import About, EntryPoint
from .answering import CALLS, LAYOUTS, ArrayListAdapter, apply_to_all, rename

FEATURES = (*CALLS, *LAYOUTS, "optimizer", "learning_rate", "mixed_dtypes", "none_grads", "repeated", "threads")


class ChainerAdapter(ArrayListAdapter):
    """Adapter for the hooks of Chainer."""

    def __init__(self) -> None:
        super().__init__(About("Chainer", chainer.__version__, {"device": "numpy"}), _list_entry_points())


def _step(gradients: Sequence[Any], hook: Any, rate: float) -> list[Any]:
    """Set up an optimizer on parameters of zero, update them with a hook, and return them negated."""
    link = chainer.Link()
    with link.init_scope():
        for index, gradient in enumerate(gradients):
            shape, dtype = ((1,), "float32") if gradient is None else (gradient.shape, gradient.dtype)
            parameter = chainer.Parameter(np.zeros(shape, dtype))
            parameter.grad = gradient
            setattr(link, f"parameter{index}", parameter)
    optimizer = chainer.optimizers.SGD(rate)
    optimizer.setup(link)
    optimizer.add_hook(hook)
    optimizer.update()
    moved = [getattr(link, f"parameter{index}").array for index in range(len(gradients))]
    return [None if gradient is None else np.zeros_like(array) - array for gradient, array in zip(gradients, moved)]


def _clip_by_norm(
    gradients: Sequence[Any], *, clip_norm: Any, learning_rate: float = 1.0, **more: Any
) -> tuple[list[Any], None]:
    return _step(gradients, optimizer_hooks.GradientClipping(clip_norm, **more), learning_rate), None


def _clip_by_value(gradients: Sequence[Any], *, learning_rate: float = 1.0, **bounds: Any) -> tuple[list[Any], None]:
    hook = optimizer_hooks.GradientHardClipping(**rename(bounds, min="lower_bound", max="upper_bound"))
    return _step(gradients, hook, learning_rate), None


def _list_entry_points() -> list[EntryPoint]:
    dtypes = ("float16", "float32", "float64")
    return [
        EntryPoint(
            "chainer.optimizer_hooks.GradientClipping [SGD]",
            "clip_by_global_norm",
            dtypes,
            FEATURES,
            clip=apply_to_all(_clip_by_norm),
        ),
        EntryPoint(
            "chainer.optimizer_hooks.GradientHardClipping [SGD]",
            "clip_by_value",
            dtypes,
            (*FEATURES, "min_max", "requires_min"),
            clip=apply_to_all(_clip_by_value),
        ),
    ]
