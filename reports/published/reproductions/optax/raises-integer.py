"""An integer threshold of 32 bits is refused, although the same number as a float is accepted.

Prints:
    OverflowError: An overflow was encountered while parsing an argument to a jitted computation
"""

import jax.numpy as jnp
import optax

gradient = jnp.array([3.0, 4.0])
clip = optax.clip_by_global_norm(2**31)
try:
    clip.update(gradient, clip.init(gradient))
except OverflowError as error:
    print("OverflowError:", str(error).partition(",")[0])
