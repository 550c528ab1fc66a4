"""In float16, the reciprocals of the norm and of the threshold are infinite.

Prints:
    [inf, -inf]
"""

import tensorflow as tf

gradient = tf.constant([2.9e-6, -3.8e-6], tf.float16)
clipped, norm = tf.clip_by_global_norm([gradient], 4.8e-6)
print(clipped[0].numpy().tolist())
