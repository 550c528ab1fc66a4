"""The powers in the norm overflow, and the infinite norm makes every gradient zero.

Prints:
    [0. 0.]
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([3e20, 4e20], np.float32))
print(ops.clip_by_norm(gradient, 1e20))
