"""A row that an IndexedSlices holds twice is clipped before its parts are added: 2 is above the bound.

Prints:
    [[0.0], [2.0]]
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import tensorflow as tf

gradient = tf.IndexedSlices(tf.constant([[3.0], [4.0]]), tf.constant([1, 1]), tf.constant([2, 1]))
variable = keras.Variable([[0.0], [0.0]])
keras.optimizers.SGD(1.0, clipvalue=1.0).apply([gradient], [variable])
print((0 - variable.value.numpy()).tolist())
