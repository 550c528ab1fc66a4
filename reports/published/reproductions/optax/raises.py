"""Scalar bounds are refused for a list, although the docstring offers them.

Prints:
    ValueError: pytree structure error: different types at key path
"""

import jax.numpy as jnp
from optax.projections import projection_box

try:
    projection_box([jnp.array([3.0, -4.0])], -1.0, 1.0)
except ValueError as error:
    print("ValueError:", str(error).splitlines()[0])
