"""The sum of squares overflows, and gradients below the threshold become zero.

Prints:
    [0.0, 0.0] inf
"""

import mlx.core as mx
from mlx.optimizers import clip_grad_norm

clipped, norm = clip_grad_norm([mx.array([3e20, 4e20])], 1e25)
print(clipped[0].tolist(), norm.item())
