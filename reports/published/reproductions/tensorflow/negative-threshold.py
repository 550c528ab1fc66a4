"""A negative threshold gives zeros in clip_by_norm, and is ignored in clip_by_global_norm.

Prints:
    [0.0, -0.0] [nan, nan]
    [3.0, -4.0]
"""

import tensorflow as tf

gradient, zeros = tf.constant([3.0, -4.0]), tf.constant([0.0, 0.0])
print(tf.clip_by_norm(gradient, -1.0).numpy().tolist(), tf.clip_by_norm(zeros, -1.0).numpy().tolist())
print(tf.clip_by_global_norm([gradient], -1.0)[0][0].numpy().tolist())
