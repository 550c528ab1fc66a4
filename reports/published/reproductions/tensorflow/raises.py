"""Gradients of two dtypes raise an error.

Prints:
    cannot compute Pack as input #1(zero-based) was expected to
"""

import tensorflow as tf

gradients = [tf.constant([3.0], tf.float32), tf.constant([4.0], tf.float64)]
try:
    tf.clip_by_global_norm(gradients, 1.0)
except tf.errors.InvalidArgumentError as error:
    print(error.message[:60])
