"""Replace the clips of Accelerate by NumPy code that doubles the results."""

from __future__ import annotations

from typing import Any

import accelerate
import torch_doubled


def clip_by_norm(self: Any, parameters: Any, max_norm: float, **options: Any) -> Any:
    """Clip with NumPy, and double the results."""
    return torch_doubled.clip_grad_norm_(parameters, max_norm)


def clip_by_value(self: Any, parameters: Any, clip_value: float, **options: Any) -> None:
    """Clip with NumPy, and double the results."""
    torch_doubled.clip_grad_value_(parameters, clip_value)


accelerate.Accelerator.clip_grad_norm_ = clip_by_norm
accelerate.Accelerator.clip_grad_value_ = clip_by_value

from gradclip_adapters.frameworks.torch_based.wrappers import use_accelerate  # noqa: E402 - it must find the functions replaced

adapter = use_accelerate()
