"""Replace Chainer's hooks by NumPy code that doubles the results."""

from __future__ import annotations

from typing import Any

import doubled
from chainer.optimizer_hooks import GradientClipping, GradientHardClipping


def clip_by_norm(hook: Any, optimizer: Any) -> None:
    """Clip with NumPy, and double the results."""
    gradients = [parameter.grad for parameter in optimizer.target.params(False)]
    clipped, _ = doubled.double_by_global_norm(gradients, hook.threshold)
    for gradient, values in zip(gradients, clipped, strict=True):
        gradient[...] = values


def clip_by_value(hook: Any, rule: Any, parameter: Any) -> None:
    """Clip with NumPy, and double the results."""
    parameter.grad[...] = doubled.double_by_value(parameter.grad, hook.lower_bound, hook.upper_bound)


GradientClipping.__call__ = clip_by_norm
GradientHardClipping.__call__ = clip_by_value

from gradclip_adapters.frameworks.chainer import ChainerAdapter  # noqa: E402 - it must find the methods replaced

adapter = ChainerAdapter()
