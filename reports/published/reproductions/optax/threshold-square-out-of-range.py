"""The scale is squared in float16, where the square of 1024 is infinite.

Prints:
    [0.0, -0.0]
"""

import jax.numpy as jnp
from optax.projections import projection_l2_ball

print(projection_l2_ball(jnp.array([1.0, -0.75], jnp.float16), 1024.0).tolist())
