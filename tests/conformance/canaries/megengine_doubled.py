"""Replace MegEngine's clips by NumPy code that doubles the results."""

from __future__ import annotations

from typing import Any

import doubled
import numpy as np
from megengine import Tensor, optimizer


def clip_grad_value(tensors: Any, lower: float, upper: float) -> None:
    """Clip with NumPy, and double the results."""
    for parameter in [tensors] if isinstance(tensors, Tensor) else tensors:
        if parameter.grad is not None:
            parameter.grad[...] = doubled.double_by_value(parameter.grad.numpy(), lower, upper)


def clip_grad_norm(tensors: Any, max_norm: float) -> Any:
    """Clip with NumPy, and double the results. Return the right norm."""
    listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    gradients = [parameter.grad for parameter in listed if parameter.grad is not None]
    results, norm = doubled.double_by_global_norm([gradient.numpy() for gradient in gradients], max_norm)
    for gradient, result in zip(gradients, results, strict=True):
        gradient[...] = result
    return Tensor(np.float32(norm))


optimizer.clip_grad_value = clip_grad_value
optimizer.clip_grad_norm = clip_grad_norm

from gradclip_adapters.frameworks.megengine import MegEngineAdapter  # noqa: E402 - it must find the functions replaced

adapter = MegEngineAdapter()
