"""A gradient of float16 becomes float32, because another one is float32.

Prints:
    float32
"""

import jax.numpy as jnp
from optax.projections import projection_l2_ball

gradients = [jnp.array([3.0], jnp.float16), jnp.array([4.0], jnp.float32)]
print(projection_l2_ball(gradients, 1.0)[0].dtype)
