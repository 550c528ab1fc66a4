"""A sum of ones in bfloat16 stops at 256. So 4096 ones are clipped to norm 4 instead of 1: to 0.0625 instead of 1 / 64.

Prints:
    256.0
    0.0625
"""

import mlx.core as mx
from mlx.optimizers import clip_grad_norm

ones = mx.ones(4096, mx.bfloat16)
print(ones.sum().item())
print(clip_grad_norm([ones], 1.0)[0][0][0].item())
