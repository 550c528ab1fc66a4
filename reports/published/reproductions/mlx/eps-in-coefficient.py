"""Gradients of norm 1e-6 are clipped to 5e-7 instead of 1e-6: the norm gets 1e-6 more.

Prints:
    [3e-07, 4e-07]
"""

import mlx.core as mx
from mlx.optimizers import clip_grad_norm

clipped, norm = clip_grad_norm([mx.array([6e-7, 8e-7])], 1e-6)
print([float(f"{number:.3g}") for number in clipped[0].tolist()])
