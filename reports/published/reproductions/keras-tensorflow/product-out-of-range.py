"""The gradient is multiplied by the threshold before it is divided by the norm.

The product overflows: 1e10 is far below 1e30, and comes back infinite.

Prints:
    [inf]
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import tensorflow as tf

gradient = tf.constant([10000000000.0], tf.float32)
variable = keras.Variable([0.0] * 1, dtype="float32")
optimizer = keras.optimizers.SGD(1.0, clipnorm=1e30)
optimizer.apply([gradient], [variable])
print((0 - keras.ops.convert_to_numpy(variable.value)).tolist())
