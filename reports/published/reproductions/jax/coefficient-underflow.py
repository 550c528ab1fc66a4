"""The coefficient 1e-39 is a subnormal number of float32, which XLA treats as zero.

Prints:
    [0.0]
"""

import jax.numpy as jnp
from jax.example_libraries.optimizers import clip_grads

print(clip_grads(jnp.array([1e19]), 1e-20).tolist())
