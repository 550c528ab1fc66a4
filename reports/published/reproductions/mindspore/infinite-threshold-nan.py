"""An infinite clip_norm turns all gradients into NaN.

Prints:
    [ True  True]
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([3.0, 4.0], np.float32))
print(np.isnan(ops.clip_by_global_norm([gradient], float("inf"))[0].asnumpy()))
