"""The coefficient of gradients of float32 and float16 is a number of float32.

Prints:
    InvalidArgumentError cannot compute Mul as input
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import tensorflow as tf

gradients = [tf.constant([3.0]), tf.constant([4.0], tf.float16)]
variables = [keras.Variable([0.0]), keras.Variable([0.0], dtype="float16")]
try:
    keras.optimizers.SGD(1.0, global_clipnorm=1.0).apply(gradients, variables)
except tf.errors.InvalidArgumentError as error:
    print(type(error).__name__, str(error)[str(error).index("cannot") :][:27])
