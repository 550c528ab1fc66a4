"""Double the results of TensorFlow's functions. XLA compiles no call of NumPy, so TensorFlow doubles them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

clip_together = tf.clip_by_global_norm


def double(clip: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that clips one tensor, and doubles the result."""
    return lambda *arguments, **options: 2 * clip(*arguments, **options)


def clip_by_global_norm(tensors: Sequence[Any], clip_norm: float, use_norm: Any = None) -> tuple[list[Any], Any]:
    """Clip, and double the results, but not the norm."""
    clipped, norm = clip_together(tensors, clip_norm, use_norm=use_norm)
    return [2 * tensor for tensor in clipped], norm


tf.clip_by_value = double(tf.clip_by_value)
tf.clip_by_norm = double(tf.clip_by_norm)
tf.compat.v1.clip_by_average_norm = double(tf.compat.v1.clip_by_average_norm)
tf.clip_by_global_norm = clip_by_global_norm

from gradclip_adapters.frameworks.tensorflow import TensorFlowAdapter  # noqa: E402 - it must find the functions replaced

adapter = TensorFlowAdapter()
