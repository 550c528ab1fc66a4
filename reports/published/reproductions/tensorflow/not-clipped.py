"""Subnormal bfloat16 numbers beyond the bounds come back unchanged.

Prints:
    [True, True]
"""

import tensorflow as tf

gradient = tf.constant([2.0**-128, 2.0**-127], tf.bfloat16)
bound = tf.constant(2.0**-130, tf.bfloat16)
print((tf.clip_by_value(gradient, -bound, bound) == gradient).numpy().tolist())
