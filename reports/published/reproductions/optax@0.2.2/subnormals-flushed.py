"""With JAX 0.4.26, bounds of 1e-40 count as equal, and -1.0 becomes the upper one.

Prints:
    [9.99994610111476e-41, 9.99994610111476e-41]
"""

import jax.numpy as jnp
import optax

print(optax.clip(1e-40).update(jnp.array([1.0, -1.0]), None)[0].tolist())
