"""A negative threshold is not refused.

It switches the clip off.

Prints:
    [3.0, 4.0]
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import tensorflow as tf

gradient = tf.constant([3.0, 4.0], tf.float32)
variable = keras.Variable([0.0] * 2, dtype="float32")
optimizer = keras.optimizers.SGD(1.0, clipnorm=-1.0)
optimizer.apply([gradient], [variable])
print((0 - keras.ops.convert_to_numpy(variable.value)).tolist())
