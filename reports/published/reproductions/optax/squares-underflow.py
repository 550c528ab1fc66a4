"""The squares underflow, so gradients of norm 5e-24 are not clipped to 1e-24.

Prints:
    ['3e-24', '4e-24']
"""

import jax.numpy as jnp
import optax

gradient = jnp.array([3e-24, 4e-24])
clip = optax.clip_by_global_norm(1e-24)
print([f"{number:.2g}" for number in clip.update(gradient, clip.init(gradient))[0].tolist()])
