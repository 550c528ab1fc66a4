"""The squares of a layer underflow, so its norm is 0 and it is not clipped: it keeps 100 times its threshold.

Prints:
    100.0
"""

import jax.numpy as jnp
import optax

clipped, _ = optax.per_example_layer_norm_clip([jnp.array([[1e-30]])], 1e-32)
print(round(float(clipped[0][0]) / 1e-32, 3))
