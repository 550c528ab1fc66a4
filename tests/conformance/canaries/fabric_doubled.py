"""Replace the clips of Lightning Fabric by NumPy code that doubles the results."""

from __future__ import annotations

from typing import Any

import lightning_fabric
import torch_doubled


def clip(self: Any, module: Any, optimizer: Any, clip_val: Any = None, max_norm: Any = None, **options: Any) -> Any:
    """Clip with NumPy, and double the results."""
    if max_norm is None:
        return torch_doubled.clip_grad_value_(module, clip_val)
    return torch_doubled.clip_grad_norm_(module, max_norm)


lightning_fabric.Fabric.clip_gradients = clip

from gradclip_adapters.frameworks.torch_based.wrappers import use_fabric  # noqa: E402 - it must find the functions replaced

adapter = use_fabric()
