"""The squares underflow, so gradients of norm 5e-24 are not clipped to 1e-24.

Prints:
    ['3e-24', '4e-24'] 0.0
"""

import tensorflow as tf

gradient = tf.constant([3e-24, 4e-24])
clipped, norm = tf.clip_by_global_norm([gradient], 1e-24)
print([f"{number:.2g}" for number in clipped[0].numpy()], norm.numpy())
