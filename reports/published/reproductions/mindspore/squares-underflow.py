"""The squares underflow in float16, so gradients above the threshold are not clipped.

Prints:
    [3.e-05 4.e-05]
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([3e-5, 4e-5], np.float16))
print(ops.clip_by_global_norm([gradient], 1e-5)[0])
