"""float32 rounds the threshold of float64 gradients to infinity, so that nothing is clipped.

Prints:
    [3.e+200 4.e+200]
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([3e200, 4e200], np.float64))
print(ops.clip_by_norm(gradient, 1e200))
