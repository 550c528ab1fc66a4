"""Zero is divided by zero.

Prints:
    [nan, nan]
"""

import jax.numpy as jnp
import optax

gradient = jnp.array([0.0, 0.0])
clip = optax.clip_by_global_norm(0.0)
print(clip.update(gradient, clip.init(gradient))[0].tolist())
