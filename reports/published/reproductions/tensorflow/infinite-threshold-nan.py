"""An infinite threshold is divided by infinity, or multiplied by zero.

Prints:
    [nan, nan]
    [nan, nan]
"""

import tensorflow as tf

gradient = tf.constant([3.0, 4.0])
print(tf.clip_by_norm(gradient, float("inf")).numpy().tolist())
print(tf.clip_by_global_norm([gradient], float("inf"))[0][0].numpy().tolist())
