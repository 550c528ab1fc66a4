"""A gradient of float16 comes back as float32 if another gradient is of float32.

Prints:
    ['float32', 'float32']
"""

import jax.numpy as jnp
from jax.example_libraries.optimizers import clip_grads

gradients = [jnp.array([3.0], jnp.float16), jnp.array([4.0], jnp.float32)]
print([one.dtype.name for one in clip_grads(gradients, 1.0)])
