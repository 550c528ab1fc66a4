"""A negative threshold flips the signs.

Prints:
    [-3.0, 4.0]
"""

import jax.numpy as jnp
import optax

gradient = jnp.array([3.0, -4.0])
clip = optax.clip_by_global_norm(-5.0)
print(clip.update(gradient, clip.init(gradient))[0].tolist())
