"""Replace the clips of torchtitan by NumPy code that doubles the results."""

from __future__ import annotations

from typing import Any

import torch_doubled
from torchtitan.distributed import utils


def clip(parameters: Any, max_norm: float, **options: Any) -> Any:
    """Clip with NumPy, and double the results."""
    return torch_doubled.clip_grad_norm_(parameters, max_norm)


utils.clip_grad_norm_ = clip

from gradclip_adapters.frameworks.torch_based.wrappers import use_torchtitan  # noqa: E402 - it must find the functions replaced

adapter = use_torchtitan()
