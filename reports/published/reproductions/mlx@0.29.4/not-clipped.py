"""The norm of 65536 numbers of float16 is 4. It comes out below max_norm, and the gradient is not clipped.

Prints:
    0.70703125 0.015625
"""

import mlx.core as mx
from mlx.optimizers import clip_grad_norm

(clipped,), norm = clip_grad_norm([mx.full((65536,), 1 / 64, mx.float16)], 1.0)
print(norm.item(), clipped[0].item())
