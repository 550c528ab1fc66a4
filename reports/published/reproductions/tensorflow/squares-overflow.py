"""The squares overflow: clip_by_norm returns zeros, clip_by_global_norm NaN.

Prints:
    [0.0, 0.0]
    [nan, nan]
"""

import tensorflow as tf

gradient = tf.constant([3e20, 4e20])
print(tf.clip_by_norm(gradient, 1e10).numpy().tolist())
print(tf.clip_by_global_norm([gradient], 1e20)[0][0].numpy().tolist())
