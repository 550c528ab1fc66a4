"""Make MLX's clips do nothing."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn.utils
import mlx.optimizers


def leave(gradients: Any, max_norm: float) -> tuple[Any, mx.array]:
    """Clip nothing, and return a norm of 0."""
    return gradients, mx.array(0.0)


mlx.optimizers.clip_grad_norm = leave
mlx.nn.utils.clip_grad_norm_sharded = leave

from gradclip_adapters.frameworks.mlx import MLXAdapter  # noqa: E402 - it must find the functions replaced

adapter = MLXAdapter()
