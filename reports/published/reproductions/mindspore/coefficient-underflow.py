"""The coefficient is a subnormal number, so that the gradient becomes zero instead of about 8e-173.

Prints:
    [0. 0.]
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([3.0, 4.0]) * 2.0**500)
print(ops.clip_by_global_norm([gradient], 2.0**-571)[0])
