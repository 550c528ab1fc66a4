"""A negative max_norm flips the signs.

Prints:
    [-0.5999999  -0.79999983]
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([3.0, 4.0], np.float32))
print(ops.clip_by_norm(gradient, -1.0))
