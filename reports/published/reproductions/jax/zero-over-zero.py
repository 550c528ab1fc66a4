"""A norm of zero is not below a threshold of zero, and zero divided by zero is NaN.

Prints:
    [nan, nan]
"""

import jax.numpy as jnp
from jax.example_libraries.optimizers import clip_grads

print(clip_grads(jnp.zeros(2), 0.0).tolist())
