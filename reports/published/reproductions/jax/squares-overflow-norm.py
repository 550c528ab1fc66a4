"""The norm is 5e20, but the squares overflow in float32.

Prints:
    inf
"""

import jax.numpy as jnp
from jax.example_libraries.optimizers import l2_norm

print(l2_norm([jnp.array([3e20, 4e20])]).item())
