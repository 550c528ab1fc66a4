"""In float16, the squares underflow, and the reciprocals of the norm 0 and of the subnormal threshold are infinite.

Prints:
    [inf, -inf] 0.0
"""

import tensorflow as tf

gradient = tf.constant([2.9e-6, -3.8e-6], tf.float16)
clipped, norm = tf.clip_by_global_norm([gradient], 4.8e-6)
print(clipped[0].numpy().tolist(), norm.numpy())
