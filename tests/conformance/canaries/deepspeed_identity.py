"""Make the clips of DeepSpeed do nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_RANK="0")

import torch
from deepspeed.runtime import engine, utils
from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer


def leave(*arguments: Any, **options: Any) -> Any:
    """Clip nothing, and return a norm of 0."""
    return torch.zeros(())


utils.clip_grad_norm_ = utils.clip_tensors_by_global_norm = engine.clip_grad_norm_ = leave
DeepSpeedZeroOptimizer.unscale_and_clip_grads = leave

from gradclip_adapters.frameworks.torch_based import deepspeed as adapted  # noqa: E402 - it must find them replaced

# The processes of a distributed call import this module in place of the adapter's.
adapted.MODULE = Path(__file__).stem
os.environ["PYTHONPATH"] = str(Path(__file__).parent)
join = adapted.join
# The host makes the adapter, which joins a group. The processes of a distributed call join another one.
adapter = adapted.DeepSpeedAdapter
