"""The squares overflow, and the infinite norm makes every gradient zero.

Prints:
    [0.0, 0.0]
"""

import jax.numpy as jnp
import optax

gradient = jnp.array([3e20, 4e20])
clip = optax.clip_by_global_norm(1e20)
print(clip.update(gradient, clip.init(gradient))[0].tolist())
