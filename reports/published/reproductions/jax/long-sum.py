"""400 squares are added one after another in bfloat16, and the norm is 12 % too large.

Prints:
    1.120049504950495
"""

import jax.numpy as jnp
from jax.example_libraries.optimizers import l2_norm

print(l2_norm([jnp.ones(1, jnp.bfloat16) * 1.01 for _ in range(400)]).item() / 20.2)
