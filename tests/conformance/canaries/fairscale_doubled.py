"""Replace the clips of FairScale by NumPy code that doubles the results."""

from __future__ import annotations

from typing import Any

import torch_doubled
from fairscale.optim import OSS


def clip(self: Any, max_norm: float, **options: Any) -> Any:
    """Clip with NumPy, and double the results."""
    return torch_doubled.clip_grad_norm_([one for group in self.param_groups for one in group["params"]], max_norm)


OSS.clip_grad_norm = clip

from gradclip_adapters.frameworks.torch_based.wrappers import use_fairscale  # noqa: E402 - it must find the functions replaced

adapter = use_fairscale()
