"""The norm is beyond float16, so the float16 gradient becomes zero.

Prints:
    [0.0, 32768.0]
"""

import jax.numpy as jnp
import optax

gradients = [jnp.array([3.0], jnp.float16), jnp.array([2.0**20])]
clip = optax.clip_by_global_norm(2.0**15)
print([each.item() for each in clip.update(gradients, clip.init(gradients))[0]])
