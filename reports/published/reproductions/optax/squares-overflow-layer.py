"""The norm of a layer is 300, but its square overflows in float16: the gradient becomes zero, even below its threshold.

Prints:
    [0.0]
"""

import jax.numpy as jnp
import optax

clipped, _ = optax.per_example_layer_norm_clip([jnp.array([[300.0]], jnp.float16)], 1000.0)
print(clipped[0].tolist())
