"""Replace MLX's clips by NumPy code that doubles the results."""

from __future__ import annotations

from typing import Any

import doubled
import mlx.core as mx
import mlx.nn.utils
import mlx.optimizers
import numpy as np


def clip(gradients: list[mx.array], max_norm: float) -> tuple[list[Any], mx.array]:
    """Clip with NumPy, and double the results."""
    clipped, norm = doubled.double_by_global_norm([np.array(one) for one in gradients], max_norm)
    return [mx.array(values) for values in clipped], mx.array(norm)


mlx.optimizers.clip_grad_norm = clip
mlx.nn.utils.clip_grad_norm_sharded = clip

from gradclip_adapters.frameworks.mlx import MLXAdapter  # noqa: E402 - it must find the functions replaced

adapter = MLXAdapter()
