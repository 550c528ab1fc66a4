"""The norm of the second example is divided by the threshold, and the NaN of zero by zero is in the sum.

Prints:
    [0.0, 0.0]
    [nan, nan]
"""

import jax.numpy as jnp
import optax

for examples in ([[3.0, 4.0]], [[3.0, 4.0], [0.0, 0.0]]):
    print(optax.per_example_global_norm_clip([jnp.array(examples)], 0.0)[0][0].tolist())
