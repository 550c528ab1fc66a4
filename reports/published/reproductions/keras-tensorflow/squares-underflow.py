"""The squares of 3e-24 and 4e-24 underflow in float32, and the norm becomes zero.

Gradients above the threshold are not clipped.

Prints:
    [2.999999960016831e-24, 4.0000000781659255e-24]
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import tensorflow as tf

gradient = tf.constant([3e-24, 4e-24], tf.float32)
variable = keras.Variable([0.0] * 2, dtype="float32")
optimizer = keras.optimizers.SGD(1.0, global_clipnorm=1e-24)
optimizer.apply([gradient], [variable])
print((0 - keras.ops.convert_to_numpy(variable.value)).tolist())
