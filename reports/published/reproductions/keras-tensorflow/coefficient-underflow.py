"""The coefficient 1e-39 is a subnormal number of float32, which the threads of TensorFlow treat as zero.

The exact result is 1e-20.

Prints:
    [0.0]
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import tensorflow as tf

gradient = tf.constant([1e19], tf.float32)
variable = keras.Variable([0.0] * 1, dtype="float32")
optimizer = keras.optimizers.SGD(1.0, global_clipnorm=1e-20)
optimizer.apply([gradient], [variable])
print((0 - keras.ops.convert_to_numpy(variable.value)).tolist())
