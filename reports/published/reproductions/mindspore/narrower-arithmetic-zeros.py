"""float32 rounds the threshold of float64 gradients to zero, and the gradients become zero.

Prints:
    [0. 0.]
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([3e-60, 4e-60], np.float64))
print(ops.clip_by_norm(gradient, 1e-60))
