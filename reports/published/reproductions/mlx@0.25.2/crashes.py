"""The process dies of a clip of float64 in mx.compile: its numbers have an unsupported type.

Prints:
    the process dies
"""

import mlx.core as mx
import numpy as np
from mlx.optimizers import clip_grad_norm

clip = mx.compile(lambda gradients: clip_grad_norm(gradients, 1.0))
clipped, norm = clip([mx.array(np.array([3.0, 4.0]), mx.float64)])
print(np.array(clipped[0]))
