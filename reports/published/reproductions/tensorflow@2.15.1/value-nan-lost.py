"""Under XLA, NaN becomes the lower bound.

Prints:
    [-1.0, 1.0]
"""

import tensorflow as tf

clip = tf.function(tf.clip_by_value, jit_compile=True)
print(clip(tf.constant([float("nan"), 3.0]), -1.0, 1.0).numpy().tolist())
