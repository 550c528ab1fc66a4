"""The derivative of the norm of zeros is infinite.

Prints:
    [nan, nan]
"""

import tensorflow as tf

gradient = tf.Variable([0.0, 0.0])
with tf.GradientTape() as tape:
    clipped, norm = tf.clip_by_global_norm([gradient], 2.5)
print(tape.gradient(clipped, gradient).numpy().tolist())
