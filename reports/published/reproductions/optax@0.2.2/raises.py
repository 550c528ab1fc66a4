"""The docstring offers scalar bounds, but for a tree they raise an error. JAX 0.4.26 names the bound in it.

Prints:
    ValueError: Expected list, got -1.0.
"""

import jax.numpy as jnp
from optax import projections

try:
    print(projections.projection_box([jnp.array([3.0, -4.0])], -1.0, 1.0))
except ValueError as error:
    print(f"ValueError: {error}")
