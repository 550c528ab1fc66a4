"""The squares overflow in float16, so that gradients of 300 and 400 become zero.

Prints:
    [0. 0.]
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([300.0, 400.0], np.float16))
print(ops.clip_by_global_norm([gradient], 100.0)[0])
