"""Make the clips of torchtitan do nothing."""

from __future__ import annotations

from typing import Any

import torch
from torchtitan.distributed import utils


def leave(parameters: Any, max_norm: float, **options: Any) -> Any:
    """Clip nothing, and return a norm of 0."""
    return torch.zeros(())


utils.clip_grad_norm_ = leave

from gradclip_adapters.frameworks.torch_based.wrappers import use_torchtitan  # noqa: E402 - it must find the functions replaced

adapter = use_torchtitan()
