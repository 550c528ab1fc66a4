"""Convert arrays to tensors of TensorFlow, and back.

Before TensorFlow 2.11, its bfloat16 in NumPy is not that of ml_dtypes. So the numbers pass as bits.
"""

from __future__ import annotations

import tensorflow as tf

from ..contract import Array

__all__ = ["make_dense", "read_tensor"]


def make_dense(array: Array) -> tf.Tensor:
    """Return the tensor of an array."""
    if array.dtype == "bfloat16":
        return tf.bitcast(tf.constant(array.bits()), tf.bfloat16)
    return tf.constant(array.numpy())


def read_tensor(tensor: tf.Tensor) -> Array:
    """Return the array of a tensor."""
    if tensor.dtype == tf.bfloat16:
        return Array.of(tf.bitcast(tensor, tf.uint16).numpy(), "bfloat16")
    return Array.of(tensor.numpy())
