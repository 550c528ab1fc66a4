"""The squares of 3e-24 and 4e-24 underflow in float32: the norm is zero, and nothing is clipped.

Prints:
    0.0 [True, True]
"""

import jax.numpy as jnp
from jax.example_libraries.optimizers import clip_grads, l2_norm

gradient = jnp.array([3e-24, 4e-24])
print(l2_norm(gradient).item(), (clip_grads(gradient, 1e-24) == gradient).tolist())
