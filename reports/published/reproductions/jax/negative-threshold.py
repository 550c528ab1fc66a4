"""A negative threshold flips the signs.

Prints:
    [-0.6000000238418579, 0.800000011920929]
"""

import jax.numpy as jnp
from jax.example_libraries.optimizers import clip_grads

print(clip_grads(jnp.array([3.0, -4.0]), -1.0).tolist())
