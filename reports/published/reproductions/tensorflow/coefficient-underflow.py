"""The coefficient is subnormal and becomes zero.

Prints:
    [0.0, 0.0]
"""

import tensorflow as tf

gradient = tf.constant([3 * 2.0**60, 2.0**62])
clipped, norm = tf.clip_by_global_norm([gradient], 3 * 2.0**-87)
print(clipped[0].numpy().tolist())
