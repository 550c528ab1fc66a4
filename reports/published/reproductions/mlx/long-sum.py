"""The norm of 100 bfloat16 gradients is 4 % too small.

Prints:
    28.75 instead of 30.0
"""

import mlx.core as mx
from mlx.optimizers import clip_grad_norm

clipped, norm = clip_grad_norm([mx.array([-3.0], mx.bfloat16)] * 100, 1.5)
print(norm.item(), "instead of", 30.0)
