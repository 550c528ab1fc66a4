"""The squares underflow, so the norm of [3e-24, 4e-24] is zero.

Prints:
    0.0
"""

import mlx.core as mx
from mlx.optimizers import clip_grad_norm

clipped, norm = clip_grad_norm([mx.array([3e-24, 4e-24])], 1.0)
print(norm.item())
