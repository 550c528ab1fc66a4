"""A layer with a NaN is not clipped: its other elements stay far above the threshold of 1.

Prints:
    [30.0, 40.0, nan]
"""

import jax.numpy as jnp
import optax

layers = [jnp.array([[30.0, 40.0, jnp.nan]]), jnp.array([[0.5, 0.0]])]
clipped, _ = optax.per_example_layer_norm_clip(layers, 2**0.5)
print(clipped[0].tolist())
