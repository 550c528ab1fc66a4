"""The small element divided by the norm underflows; 5e-31 is due.

Prints:
    ['5e+17', '0']
"""

import jax.numpy as jnp
import optax

gradient = jnp.array([1e18, 1e-30])
clip = optax.clip_by_global_norm(5e17)
print([f"{number:.2g}" for number in clip.update(gradient, clip.init(gradient))[0].tolist()])
