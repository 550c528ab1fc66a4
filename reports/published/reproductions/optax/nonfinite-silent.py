"""An example with a NaN is not clipped: its other elements stay far above the threshold of 1.

Prints:
    [30.0, 40.0, nan]
"""

import jax.numpy as jnp
import optax

examples = jnp.array([[0.0, 0.0, 0.0], [30.0, 40.0, jnp.nan]])
clipped, _ = optax.per_example_global_norm_clip([examples], 1.0)
print(clipped[0].tolist())
