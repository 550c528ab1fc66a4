"""The bounds of float64 gradients are rounded to float32.

Prints:
    0.10000000149011612
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([1.0], np.float64))
print(ops.clip_by_value(gradient, -0.1, 0.1).asnumpy().item())
