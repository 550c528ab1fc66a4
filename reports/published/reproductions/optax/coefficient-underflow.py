"""The coefficient scale / norm is a subnormal number, so the gradient becomes zero instead of about 1e-26.

Prints:
    [0. 0.]
"""

import jax.numpy as jnp
from optax.projections import projection_l2_ball

gradient = jnp.array([1.5 * 2.0**61, 2.0**62])
print(projection_l2_ball(gradient, 2.0**-86))
