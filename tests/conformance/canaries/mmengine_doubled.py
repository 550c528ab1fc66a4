"""Replace the clips of MMEngine by NumPy code that doubles the results."""

from __future__ import annotations

from typing import Any

import torch_doubled
from mmengine.optim import OptimWrapper


def step(self: Any, **options: Any) -> None:
    """Clip with NumPy, double the results, and take a step."""
    parameters = [one for group in self.optimizer.param_groups for one in group["params"]]
    if "clip_value" in self.clip_grad_kwargs:
        torch_doubled.clip_grad_value_(parameters, self.clip_grad_kwargs["clip_value"])
    else:
        torch_doubled.clip_grad_norm_(parameters, self.clip_grad_kwargs["max_norm"])
    self.optimizer.step()


OptimWrapper.step = step

from gradclip_adapters.frameworks.torch_based.wrappers import use_mmengine  # noqa: E402 - it must find the functions replaced

adapter = use_mmengine()
