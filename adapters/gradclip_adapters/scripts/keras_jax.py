"""Call the clips of Keras on JAX (see `keras_torch`)."""

import os
from functools import partial

os.environ["KERAS_BACKEND"] = "jax"
import jax
import jax.numpy as jnp
import keras

from .keras_torch import make_variables, read


def make(values, dtype):
    return jnp.array(values, dtype)


def step_compiled(argument, gradients, *, learning_rate=1.0, **options):
    variables = make_variables(gradients)
    optimizer = keras.optimizers.SGD(learning_rate, **dict(zip([argument], options.values())))
    optimizer.build(variables)
    states = [one.value for one in optimizer.variables], gradients, [one.value for one in variables]
    values, _ = jax.jit(optimizer.stateless_apply)(*states)
    return [-value for value in values], None


ENTRY_POINTS = {
    "keras.optimizers.SGD(clipvalue)[jit_compile]": partial(step_compiled, "clipvalue"),
    "keras.optimizers.SGD(clipnorm)[jit_compile]": partial(step_compiled, "clipnorm"),
    "keras.optimizers.SGD(global_clipnorm)[jit_compile]": partial(step_compiled, "global_clipnorm"),
}
