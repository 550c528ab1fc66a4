"""An integer scale is squared by Python, and the square has more than 32 bits.

Prints:
    OverflowError: An overflow was encountered while parsing an argument to a jitted computation
"""

import jax.numpy as jnp
from optax.projections import projection_l2_ball

try:
    projection_l2_ball(jnp.array([3.0, 4.0]), 65536)
except OverflowError as error:
    print("OverflowError:", str(error).partition(",")[0])
