"""Make torch's functions do nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch


def leave(parameters: Any, *arguments: Any, **keywords: Any) -> None:
    """Clip nothing."""


def leave_and_return_norm(parameters: Any, *arguments: Any, **keywords: Any) -> torch.Tensor:
    """Clip nothing, and return a norm of 0."""
    return torch.zeros(())


torch.nn.utils.clip_grad_value_ = leave
torch.nn.utils.clip_grad_norm_ = leave_and_return_norm
torch.nn.utils.clip_grads_with_norm_ = leave

from gradclip_adapters.frameworks.torch import TorchAdapter  # noqa: E402 - it must find the functions replaced
from gradclip_adapters.frameworks.torch_based import distributed  # noqa: E402 - it must find them, too

# The processes of a distributed call import this module in place of the adapter's.
distributed.MODULE = Path(__file__).stem
os.environ["PYTHONPATH"] = str(Path(__file__).parent)
join = distributed.join
adapter = TorchAdapter()
