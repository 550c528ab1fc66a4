"""The squares of 3e20 and 4e20 overflow in float32, and the coefficient of an infinite norm is zero.

Prints:
    [0.0, 0.0]
"""

import jax.numpy as jnp
from jax.example_libraries.optimizers import clip_grads

print(clip_grads(jnp.array([3e20, 4e20]), 1e20).tolist())
