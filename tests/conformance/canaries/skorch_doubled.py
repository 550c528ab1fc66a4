"""Replace the clips of skorch by NumPy code that doubles the results."""

from __future__ import annotations

from typing import Any

import torch_doubled
from skorch.callbacks import GradientNormClipping


def clip(self: Any, net: Any, named_parameters: Any, **options: Any) -> None:
    """Clip with NumPy, and double the results."""
    torch_doubled.clip_grad_norm_([parameter for _, parameter in named_parameters], self.gradient_clip_value)


GradientNormClipping.on_grad_computed = clip

from gradclip_adapters.frameworks.torch_based.wrappers import use_skorch  # noqa: E402 - it must find the functions replaced

adapter = use_skorch()
