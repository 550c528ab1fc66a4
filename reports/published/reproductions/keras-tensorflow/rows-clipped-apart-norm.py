"""A row that an IndexedSlices holds twice is squared before its parts are added: the norm is not 1.

Prints:
    [[0.0], [1.4000000953674316]]
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import tensorflow as tf

gradient = tf.IndexedSlices(tf.constant([[3.0], [4.0]]), tf.constant([1, 1]), tf.constant([2, 1]))
variable = keras.Variable([[0.0], [0.0]])
keras.optimizers.SGD(1.0, clipnorm=1.0).apply([gradient], [variable])
print((0 - variable.value.numpy()).tolist())
