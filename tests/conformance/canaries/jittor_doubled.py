"""Replace the clip of Jittor by NumPy code that doubles the results."""

from __future__ import annotations

from typing import Any

import doubled

from gradclip_adapters.frameworks.jittor import JittorAdapter, jittor


def clip(optimizer: Any, max_norm: float, norm_type: int = 2) -> None:
    """Clip with NumPy, and double the results."""
    pairs = zip(optimizer.param_groups[0]["params"], optimizer.param_groups[0]["grads"], strict=True)
    gradients = [gradient for parameter, gradient in pairs if not parameter.is_stop_grad()]
    clipped, _ = doubled.double_by_global_norm([gradient.numpy() for gradient in gradients], max_norm)
    for gradient, values in zip(gradients, clipped, strict=True):
        gradient.update(jittor.array(values, values.dtype.name))


jittor.optim.Optimizer.clip_grad_norm = clip

adapter = JittorAdapter()
