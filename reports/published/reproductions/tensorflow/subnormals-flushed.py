"""Subnormal bounds become zero.

Prints:
    [-0.0, 0.0]
"""

import tensorflow as tf

gradient = tf.constant([-3.0, 4.0])
print(tf.clip_by_value(gradient, -1e-40, 1e-40).numpy().tolist())
