"""Zero is divided by zero.

Prints:
    [nan, nan]
    [nan, nan]
"""

import tensorflow as tf

gradient = tf.constant([0.0, 0.0])
print(tf.clip_by_norm(gradient, 0.0).numpy().tolist())
print(tf.clip_by_global_norm([gradient], 0.0)[0][0].numpy().tolist())
