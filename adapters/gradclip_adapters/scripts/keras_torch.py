"""Call the clips of Keras on torch. Variables start at zero.

After one step, the negated variable of SGD is the clipped gradient. So is the first moment of Adam with `beta_1=0`.
"""

import os
from functools import partial

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

from .torch import make, make_broadcast, make_sliced, make_strided, make_transposed


def read(tensor):
    array = keras.ops.convert_to_numpy(tensor)
    # NumPy has no bfloat16.
    return array.astype(float) if array.dtype.name == "bfloat16" else array


def make_variables(gradients):
    forms = [((1,), "float32") if one is None else (one.shape, one.dtype) for one in gradients]
    dtypes = [keras.backend.standardize_dtype(dtype) for _, dtype in forms]
    return [keras.Variable(np.zeros(shape), dtype=dtype) for (shape, _), dtype in zip(forms, dtypes)]


def step_sgd(argument, gradients, *, learning_rate=1.0, **options):
    variables = make_variables(gradients)
    optimizer = keras.optimizers.SGD(learning_rate, **dict(zip([argument], options.values())))
    optimizer.apply(gradients, variables)
    return [-variable.value for variable in variables], None


def step_adam(argument, gradients, **options):
    variables = make_variables(gradients)
    optimizer = keras.optimizers.Adam(beta_1=0.0, **dict(zip([argument], options.values())))
    optimizer.apply(gradients, variables)
    return [variable.value for variable in optimizer.variables if variable.name.endswith("momentum")], None


ENTRY_POINTS = {
    "keras.optimizers.SGD(clipvalue)": partial(step_sgd, "clipvalue"),
    "keras.optimizers.SGD(clipnorm)": partial(step_sgd, "clipnorm"),
    "keras.optimizers.SGD(global_clipnorm)": partial(step_sgd, "global_clipnorm"),
    "keras.optimizers.Adam(clipvalue)": partial(step_adam, "clipvalue"),
    "keras.optimizers.Adam(clipnorm)": partial(step_adam, "clipnorm"),
    "keras.optimizers.Adam(global_clipnorm)": partial(step_adam, "global_clipnorm"),
}
