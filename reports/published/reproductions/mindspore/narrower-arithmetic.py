"""float64 gradients are clipped by a norm of float32.

Prints:
    2e-08
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([1.0, 1.0], np.float64))
clipped = ops.clip_by_global_norm([gradient], 1.0)[0].asnumpy()
print(f"{abs(clipped[0] * 2**0.5 - 1):.0e}")
