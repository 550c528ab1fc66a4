"""Call the clips of Keras on TensorFlow (see `keras_torch`)."""

import os
from functools import partial

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import tensorflow as tf

from .keras_torch import make_variables, read, step_adam, step_sgd
from .tensorflow import make


def step_compiled(argument, gradients, *, learning_rate=1.0, **options):
    variables = make_variables(gradients)
    optimizer = keras.optimizers.SGD(learning_rate, **dict(zip([argument], options.values())))
    optimizer.build(variables)
    tf.function(optimizer.apply, autograph=False, jit_compile=True)(gradients)
    return [-variable.value for variable in variables], None


ENTRY_POINTS = {
    "keras.optimizers.SGD(clipvalue)": partial(step_sgd, "clipvalue"),
    "keras.optimizers.SGD(clipnorm)": partial(step_sgd, "clipnorm"),
    "keras.optimizers.SGD(global_clipnorm)": partial(step_sgd, "global_clipnorm"),
    "keras.optimizers.SGD(clipvalue)[jit_compile]": partial(step_compiled, "clipvalue"),
    "keras.optimizers.SGD(clipnorm)[jit_compile]": partial(step_compiled, "clipnorm"),
    "keras.optimizers.SGD(global_clipnorm)[jit_compile]": partial(step_compiled, "global_clipnorm"),
    "keras.optimizers.Adam(clipvalue)": partial(step_adam, "clipvalue"),
    "keras.optimizers.Adam(clipnorm)": partial(step_adam, "clipnorm"),
    "keras.optimizers.Adam(global_clipnorm)": partial(step_adam, "global_clipnorm"),
}
