"""Replace Paddle's clip classes and functions by NumPy code that doubles the results, except in static programs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import doubled
import paddle
from paddle.distributed.fleet.meta_optimizers.dygraph_optimizer.hybrid_parallel_optimizer import HybridParallelClipGrad


def clip_by_value(clip: Any, params_grads: list[Any]) -> list[Any]:
    """Clip with NumPy, and double the results."""
    return [
        (parameter, paddle.to_tensor(doubled.double_by_value(gradient.numpy(), clip.min, clip.max)))
        for parameter, gradient in params_grads
    ]


def clip_by_norm(clip: Any, params_grads: list[Any]) -> list[Any]:
    """Clip with NumPy, and double the results."""
    return [
        (parameter, paddle.to_tensor(doubled.double_by_norm(gradient.numpy(), clip.clip_norm)))
        for parameter, gradient in params_grads
    ]


def clip_by_global_norm(clip: Any, params_grads: list[Any]) -> list[Any]:
    """Clip with NumPy, and double the results."""
    arrays = [gradient.numpy() for _, gradient in params_grads]
    clipped, _ = doubled.double_by_global_norm(arrays, clip.clip_norm)
    return [(parameter, paddle.to_tensor(values)) for (parameter, _), values in zip(params_grads, clipped, strict=True)]


def clip_grad_value_(parameters: Iterable[Any], clip_value: float) -> None:
    """Clip with NumPy, and double the results."""
    for parameter in parameters:
        parameter.grad = paddle.to_tensor(doubled.double_by_value(parameter.grad.numpy(), -clip_value, clip_value))


def clip_grad_norm_(parameters: list[Any], max_norm: float) -> Any:
    """Clip with NumPy, and double the results."""
    clipped, norm = doubled.double_by_global_norm([parameter.grad.numpy() for parameter in parameters], max_norm)
    for parameter, values in zip(parameters, clipped, strict=True):
        parameter.grad = paddle.to_tensor(values)
    return paddle.to_tensor(norm, "float32")


def clip_tensor_by_norm(tensor: Any, clip_norm: float) -> Any:
    """Clip with NumPy, and double the results."""
    return paddle.to_tensor(doubled.double_by_norm(tensor.numpy(), clip_norm))


def clip_tensor(tensor: Any, *, max: float, min: float) -> Any:
    """Clip with NumPy, and double the results."""
    return paddle.to_tensor(doubled.double_by_value(tensor.numpy(), min, max))


def clip_tensor_(tensor: Any, *, max: float, min: float) -> Any:
    """Clip with NumPy, and double the results."""
    return tensor.set_value(doubled.double_by_value(tensor.numpy(), min, max)) or tensor


paddle.nn.ClipGradByValue._dygraph_clip = clip_by_value
paddle.nn.ClipGradByNorm._dygraph_clip = clip_by_norm
paddle.nn.ClipGradByGlobalNorm._dygraph_clip = clip_by_global_norm
paddle.nn.utils.clip_grad_value_ = clip_grad_value_
paddle.nn.utils.clip_grad_norm_ = clip_grad_norm_
paddle.nn.clip.clip_by_norm = clip_tensor_by_norm
paddle.clip = clip_tensor
paddle.Tensor.clip_ = clip_tensor_
HybridParallelClipGrad.__call__ = clip_by_global_norm

from gradclip_adapters.frameworks import paddle_fleet  # noqa: E402 - it must find the functions replaced
from gradclip_adapters.frameworks.paddle import PaddleAdapter  # noqa: E402 - it must find them, too

# The processes of a distributed call import this module in place of the adapter's.
paddle_fleet.TEAM.module = Path(__file__).stem
os.environ["PYTHONPATH"] = str(Path(__file__).parent)
join = paddle_fleet.join
adapter = PaddleAdapter()
