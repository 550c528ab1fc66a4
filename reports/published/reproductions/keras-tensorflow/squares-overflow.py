"""The squares of 3e20 and 4e20 overflow in float32, and gradients divided by an infinite norm are zero.

Prints:
    [0.0, 0.0]
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import tensorflow as tf

gradient = tf.constant([3e20, 4e20], tf.float32)
variable = keras.Variable([0.0] * 2, dtype="float32")
optimizer = keras.optimizers.SGD(1.0, clipnorm=1.0)
optimizer.apply([gradient], [variable])
print((0 - keras.ops.convert_to_numpy(variable.value)).tolist())
