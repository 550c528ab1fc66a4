"""A sum of float16 or bfloat16 soon stops to grow, so the norm of 4096 ones is too small: it is 64.

Prints:
    45.25
    16.0
"""

import mlx.core as mx
from mlx.optimizers import clip_grad_norm

print(clip_grad_norm([mx.ones(4096, mx.float16)], 1.0)[1].item())
print(clip_grad_norm([mx.ones(4096, mx.bfloat16)], 1.0)[1].item())
