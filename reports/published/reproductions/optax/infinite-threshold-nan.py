"""An infinite scale is divided by the root of its square.

Prints:
    [nan, nan]
"""

import jax.numpy as jnp
from optax.projections import projection_l2_ball

print(projection_l2_ball(jnp.array([3.0, 4.0]), jnp.inf).tolist())
