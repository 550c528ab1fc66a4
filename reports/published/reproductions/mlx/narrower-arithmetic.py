"""A threshold of NumPy's float64 gives float64 gradients with the digits of float32.

Prints:
    0e+00
    9e-09
"""

import mlx.core as mx
import numpy as np
from mlx.optimizers import clip_grad_norm

gradient = mx.array([3.0, 4.0], mx.float64)
for threshold in (0.7, np.float64(0.7)):
    clipped = np.array(clip_grad_norm([gradient], threshold)[0][0])
    print(f"{abs(clipped[0] / (3 * 0.7 / (5 + 1e-6)) - 1):.0e}")
