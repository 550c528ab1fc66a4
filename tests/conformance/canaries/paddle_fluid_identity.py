"""Make fluid's clip classes do nothing, in dygraph, in static programs, through `set_gradient_clip` and for errors."""

from __future__ import annotations

from typing import Any

from paddle.fluid.clip import ErrorClipByValue, GradientClipByGlobalNorm, GradientClipByNorm, GradientClipByValue


def leave_pairs(clip: Any, params_grads: Any) -> Any:
    """Clip nothing."""
    return params_grads


def leave_pair(clip: Any, param: Any, grad: Any) -> tuple[Any, Any]:
    """Clip nothing."""
    return param, grad


def leave_error(clip: Any, block: Any, grad_name: str) -> None:
    """Clip nothing."""


ErrorClipByValue._append_clip_op = leave_error
for clip_class in (GradientClipByValue, GradientClipByNorm, GradientClipByGlobalNorm):
    clip_class.__call__ = leave_pairs
    # `append_gradient_clip_ops` calls this method.
    clip_class._create_operators = leave_pair

from gradclip_adapters.frameworks.paddle_fluid import PaddleFluidAdapter  # noqa: E402 - it must find the methods replaced

adapter = PaddleFluidAdapter()
