"""Make Paddle's clip classes and functions do nothing, in dynamic mode and in static programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import paddle
from paddle.distributed.fleet.meta_optimizers.dygraph_optimizer.hybrid_parallel_optimizer import HybridParallelClipGrad


def leave_pairs(clip: Any, params_grads: Any) -> Any:
    """Clip nothing."""
    return params_grads


def leave(parameters: Any, *arguments: Any, **keywords: Any) -> None:
    """Clip nothing."""


def leave_and_return_norm(parameters: Any, *arguments: Any, **keywords: Any) -> Any:
    """Clip nothing, and return a norm of 0."""
    return paddle.zeros([])


def leave_tensor(tensor: Any, *arguments: Any, **keywords: Any) -> Any:
    """Clip nothing."""
    return tensor


for clip_class in (paddle.nn.ClipGradByValue, paddle.nn.ClipGradByNorm, paddle.nn.ClipGradByGlobalNorm):
    clip_class.__call__ = leave_pairs
paddle.nn.utils.clip_grad_value_ = leave
paddle.nn.utils.clip_grad_norm_ = leave_and_return_norm
paddle.nn.clip.clip_by_norm = leave_tensor
paddle.clip = leave_tensor
paddle.Tensor.clip_ = leave_tensor
paddle.base.libpaddle.pir.Value._set_error_clip = leave
HybridParallelClipGrad.__call__ = leave_pairs

from gradclip_adapters.frameworks import paddle_fleet  # noqa: E402 - it must find the functions replaced
from gradclip_adapters.frameworks.paddle import PaddleAdapter  # noqa: E402 - it must find them, too

# The processes of a distributed call import this module in place of the adapter's.
paddle_fleet.TEAM.module = Path(__file__).stem
os.environ["PYTHONPATH"] = str(Path(__file__).parent)
join = paddle_fleet.join
adapter = PaddleAdapter()
