"""The norm of order 1 adds the elements with their signs, so that 3 and -4 flip their signs and are not clipped.

Prints:
    [-10.500011  14.000015]
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([3.0, -4.0], np.float32))
print(ops.clip_by_norm(gradient, 3.5, 1.0))
