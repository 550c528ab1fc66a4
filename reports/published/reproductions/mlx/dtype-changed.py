"""The function for sharded gradients returns a float16 gradient as float32.

Prints:
    mlx.core.float32
"""

import mlx.core as mx
from mlx.nn.utils import clip_grad_norm_sharded

clipped, norm = clip_grad_norm_sharded([mx.array([3.0], mx.float16), mx.array([4.0])], 1.0)
print(clipped[0].dtype)
