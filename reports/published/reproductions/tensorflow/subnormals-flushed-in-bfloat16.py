"""Subnormal bfloat16 gradients above a subnormal bound come back unchanged if there is one, as zeros if there are many.

Prints:
    {16}
    {0}
"""

import tensorflow as tf

bound = tf.bitcast(tf.constant(8, tf.uint16), tf.bfloat16)
for count in 1, 64:
    gradient = tf.bitcast(tf.constant([16] * count, tf.uint16), tf.bfloat16)
    clipped = tf.clip_by_value(gradient, -bound, bound)
    print(set(tf.bitcast(clipped, tf.uint16).numpy().tolist()))
