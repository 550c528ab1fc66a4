"""float32 rounds threshold and norm of float64 gradients to zero, and zero over zero is NaN.

Prints:
    [ True  True]
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([3e-60, 4e-60], np.float64))
print(np.isnan(ops.clip_by_global_norm([gradient], 1e-60)[0].asnumpy()))
