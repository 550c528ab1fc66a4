"""A gradient without elements changes the norm: its sum is memory that an earlier operation left.

Prints:
    False
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient, empty = (ms.Tensor(np.array(values, np.float32)) for values in ([3.0, 4.0], []))
ops.square(ms.Tensor(np.full(1, 7.0, np.float32))).asnumpy()
found = {str(ops.clip_by_global_norm([empty, gradient], 1.0)[1]) for _ in range(20)}
print(found == {str(ops.clip_by_global_norm([gradient], 1.0)[0])})
