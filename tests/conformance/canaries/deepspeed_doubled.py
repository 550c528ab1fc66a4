"""Replace the clips of DeepSpeed by NumPy code that doubles the results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_RANK="0")

import doubled
import torch
from deepspeed.runtime import engine, utils
from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer


def clip_parameters(parameters: Any, max_norm: float, **options: Any) -> torch.Tensor:
    """Clip with NumPy, and double the results."""
    return clip_tensors([one.grad for one in parameters if one.grad is not None], max_norm)


def clip_tensors(tensors: Sequence[torch.Tensor], max_norm: float) -> torch.Tensor:
    """Clip with NumPy, and double the results."""
    clipped, norm = doubled.double_by_global_norm([one.numpy() for one in tensors], max_norm)
    for old, new in zip(tensors, clipped, strict=True):
        old.copy_(torch.from_numpy(new))
    return torch.tensor(norm)


def clip_partition(self: Any, parts: Sequence[torch.Tensor], total_norm: torch.Tensor) -> None:
    """Scale the part of a process with NumPy, by the norm that was passed, and double the results."""
    for part in parts:
        part.copy_(torch.from_numpy(part.numpy() * (2 * self.clip_grad / max(float(total_norm), self.clip_grad))))


utils.clip_grad_norm_ = engine.clip_grad_norm_ = clip_parameters
utils.clip_tensors_by_global_norm = clip_tensors
DeepSpeedZeroOptimizer.unscale_and_clip_grads = clip_partition

from gradclip_adapters.frameworks.torch_based import deepspeed as adapted  # noqa: E402 - it must find them replaced

# The processes of a distributed call import this module in place of the adapter's.
adapted.MODULE = Path(__file__).stem
os.environ["PYTHONPATH"] = str(Path(__file__).parent)
join = adapted.join
# The host makes the adapter, which joins a group. The processes of a distributed call join another one.
adapter = adapted.DeepSpeedAdapter
