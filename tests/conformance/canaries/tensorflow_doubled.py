"""Replace TensorFlow's functions by NumPy code that doubles the results, in graphs too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import doubled
import numpy as np
import tensorflow as tf


def clip_by_value(tensor: Any, clip_value_min: float, clip_value_max: float) -> Any:
    """Clip with NumPy, and double the results."""
    return tf.numpy_function(
        lambda values: doubled.double_by_value(values, clip_value_min, clip_value_max), [tensor], tensor.dtype
    )


def clip_by_norm(tensor: Any, clip_norm: float) -> Any:
    """Clip with NumPy, and double the results."""
    return tf.numpy_function(lambda values: doubled.double_by_norm(values, clip_norm), [tensor], tensor.dtype)


def clip_by_average_norm(tensor: Any, clip_norm: float) -> Any:
    """Clip with NumPy, and double the results."""
    return tf.numpy_function(lambda values: doubled.double_by_average(values, clip_norm, 1.0), [tensor], tensor.dtype)


def clip_by_global_norm(tensors: Sequence[Any], clip_norm: float, use_norm: Any = None) -> tuple[list[Any], Any]:
    """Clip with NumPy by the given norm, or by the global norm, and double the results."""

    def clip(norm: Any, *arrays: Any) -> list[Any]:
        return [(values * (2 * clip_norm / norm)).astype(values.dtype) for values in arrays] + [norm]

    def compute_norm(*arrays: Any) -> Any:
        return np.asarray(doubled.compute_norm(arrays), "float32")

    norm = tf.numpy_function(compute_norm, tensors, tf.float32) if use_norm is None else use_norm
    *clipped, norm = tf.numpy_function(clip, [norm, *tensors], [*(tensor.dtype for tensor in tensors), tf.float32])
    return clipped, norm


tf.clip_by_value = clip_by_value
tf.clip_by_norm = clip_by_norm
tf.compat.v1.clip_by_average_norm = clip_by_average_norm
tf.clip_by_global_norm = clip_by_global_norm

from gradclip_adapters.frameworks.tensorflow import TensorFlowAdapter  # noqa: E402 - it must find the functions replaced

adapter = TensorFlowAdapter()
