"""The coefficient is subnormal and has one bit, so the results are 25 % too large.

Prints:
    [1.5, 2.0] instead of [1.2, 1.6]
"""

import mlx.core as mx
from mlx.optimizers import clip_grad_norm

clipped, norm = clip_grad_norm([mx.array([3 * 2.0**60, 2.0**62])], 2.0**-86)
print([number * 2.0**87 for number in clipped[0].tolist()], "instead of", [1.2, 1.6])
