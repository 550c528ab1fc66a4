"""The norm is 0.7, below the threshold, and the gradient is still multiplied and divided by the threshold.

It was 0.10000000149011612 in float32.

Prints:
    [0.10000000894069672, 0.699999988079071]
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import tensorflow as tf

gradient = tf.constant([0.1, 0.7], tf.float32)
variable = keras.Variable([0.0] * 2, dtype="float32")
optimizer = keras.optimizers.SGD(1.0, clipnorm=3.3)
optimizer.apply([gradient], [variable])
print((0 - keras.ops.convert_to_numpy(variable.value)).tolist())
