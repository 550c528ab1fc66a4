"""In bfloat16, the squares of 4096 ones sum to 1024. The norm is 64, so the exact result is 0.25.

Prints:
    [0.5, 0.5]
"""

import tensorflow as tf

clipped = tf.clip_by_norm(tf.ones(4096, tf.bfloat16), 16.0)
with tf.compat.v1.Session() as session:
    print(session.run(tf.cast(clipped[:2], tf.float32)).tolist())
