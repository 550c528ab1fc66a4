"""A clip by value turns NaN into a bound.

Prints:
    [ 1. -1.]
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([3.0, np.nan], np.float32))
print(ops.clip_by_value(gradient, -1.0, 1.0))
