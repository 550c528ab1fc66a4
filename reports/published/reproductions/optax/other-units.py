"""A weight with one input counts as one unit, so the gradient of the first output makes that of the second smaller.

Each output's limit is 0.5 times its weight. Only the gradient 4 is above its limit.

Prints:
    [0.7071, 0.005524]
"""

import jax.numpy as jnp
import optax

weight, gradient = jnp.array([[1.0, 1.0]]), jnp.array([[4.0, 0.03125]])
clip = optax.adaptive_grad_clip(0.5)
result, _ = clip.update(gradient, clip.init(weight), weight)
print([float(f"{number:.4g}") for number in result[0]])
