"""With `global_clipnorm`, an infinite norm makes every gradient NaN, even below the threshold.

Prints:
    [nan, nan]
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import tensorflow as tf

gradient = tf.constant([3e20, 4e20], tf.float32)
variable = keras.Variable([0.0] * 2, dtype="float32")
optimizer = keras.optimizers.SGD(1.0, global_clipnorm=1e30)
optimizer.apply([gradient], [variable])
print((0 - keras.ops.convert_to_numpy(variable.value)).tolist())
