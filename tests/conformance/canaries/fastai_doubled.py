"""Replace the clip of fastai by NumPy code that doubles the results."""

from __future__ import annotations

from typing import Any

import torch_doubled
from fastai.callback.training import GradientClip


def double(self: Any) -> None:
    """Clip with NumPy, and double the results."""
    torch_doubled.clip_grad_norm_(list(self.parameters()), self.max_norm)


GradientClip.before_step = double

from gradclip_adapters.frameworks.torch_based.fastai import FastaiAdapter  # noqa: E402 - it must find the functions replaced

adapter = FastaiAdapter()
