"""The derivative of the norm of zeros is infinite.

Prints:
    [nan, nan]
"""

import jax
import jax.numpy as jnp
import optax

clip = optax.clip_by_global_norm(2.5)
print(jax.grad(lambda x: clip.update(x, clip.init(x))[0].sum())(jnp.array([0.0, 0.0])).tolist())
