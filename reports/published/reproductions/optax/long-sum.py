"""The norm of 100 bfloat16 gradients is 4 % too small.

Prints:
    -0.15625 instead of -0.15
"""

import jax.numpy as jnp
import optax

gradients = [jnp.array([-3.0], jnp.bfloat16)] * 100
clip = optax.clip_by_global_norm(1.5)
print(clip.update(gradients, clip.init(gradients))[0][0].item(), "instead of", -1.5 / 10)
