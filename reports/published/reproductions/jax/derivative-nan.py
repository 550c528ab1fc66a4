"""The derivative of the square root at zero is infinite, and zero times infinity is NaN.

Prints:
    [nan, nan]
"""

import jax
import jax.numpy as jnp
from jax.example_libraries.optimizers import clip_grads

_, pull_back = jax.vjp(lambda gradient: clip_grads(gradient, 1.0), jnp.zeros(2))
print(pull_back(jnp.ones(2))[0].tolist())
