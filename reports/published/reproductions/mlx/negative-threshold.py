"""The function for sharded gradients does not refuse a negative threshold, and the signs flip.

Prints:
    [-0.6, -0.8]
"""

import mlx.core as mx
from mlx.nn.utils import clip_grad_norm_sharded

clipped, norm = clip_grad_norm_sharded([mx.array([3.0, 4.0])], -1.0)
print([round(number, 6) for number in clipped[0].tolist()])
