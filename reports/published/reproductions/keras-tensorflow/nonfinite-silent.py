"""A threshold of zero switches the clip off, and NaN and 3 come back side by side.

Prints:
    [3.0, nan]
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import tensorflow as tf

gradient = tf.constant([3.0, float("nan")], tf.float32)
variable = keras.Variable([0.0] * 2, dtype="float32")
optimizer = keras.optimizers.SGD(1.0, global_clipnorm=0.0)
optimizer.apply([gradient], [variable])
print((0 - keras.ops.convert_to_numpy(variable.value)).tolist())
