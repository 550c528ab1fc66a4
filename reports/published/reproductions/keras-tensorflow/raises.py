"""An optimizer refuses gradients that are all None.

Prints:
    ValueError No gradients provided for any variable.
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras

variable = keras.Variable([0.0])
try:
    keras.optimizers.SGD(1.0, clipnorm=1.0).apply([None], [variable])
except ValueError as error:
    print(type(error).__name__, error)
