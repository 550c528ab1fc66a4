"""Make the clips of Accelerate do nothing."""

from __future__ import annotations

from typing import Any

import accelerate
import torch


def leave(self: Any, parameters: Any, threshold: float, **options: Any) -> Any:
    """Clip nothing, and return a norm of 0."""
    return torch.zeros(())


def leave_values(self: Any, parameters: Any, threshold: float, **options: Any) -> None:
    """Clip nothing."""


accelerate.Accelerator.clip_grad_norm_ = leave
accelerate.Accelerator.clip_grad_value_ = leave_values

from gradclip_adapters.frameworks.torch_based.wrappers import use_accelerate  # noqa: E402 - it must find the functions replaced

adapter = use_accelerate()
