"""The gradient is multiplied by clip_norm before it is divided by the norm, and the product overflows.

Prints:
    [inf inf]
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([3e10, 4e10], np.float32))
print(ops.clip_by_global_norm([gradient], 1e30)[0])
