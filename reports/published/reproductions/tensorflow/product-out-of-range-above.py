"""The gradient times the threshold overflows, and infinity divided by the norm is NaN or infinite.

Prints:
    [nan, 0.0]
"""

import tensorflow as tf

gradient = tf.constant([3e19, 4e18])
print(tf.clip_by_norm(gradient, 2e19).numpy().tolist())
