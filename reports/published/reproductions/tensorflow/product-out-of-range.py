"""The gradient times the threshold underflows, although the norm is below the threshold.

Prints:
    [0.0, 0.0]
"""

import tensorflow as tf

gradient = tf.constant([3e-24, 4e-24])
print(tf.clip_by_norm(gradient, 1e-22).numpy().tolist())
