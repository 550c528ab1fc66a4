"""A negative threshold is not refused: the signs of both layers flip, and the small one grows.

Prints:
    [-3.0, 4.0] [-5.0]
"""

import jax.numpy as jnp
import optax

layers = [jnp.array([[6.0, -8.0]]), jnp.array([[0.5]]), jnp.zeros((1, 1)), jnp.zeros((1, 1))]
clipped, _ = optax.per_example_layer_norm_clip(layers, -10.0)
print(clipped[0].tolist(), clipped[1].tolist())
