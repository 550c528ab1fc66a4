"""Gradients below the threshold are multiplied and divided by it, and lose their last bits.

Prints:
    True
"""

import mindspore as ms
import numpy as np
from mindspore import ops

values = np.arange(1, 24, dtype=np.float32) / 23
thresholds = np.arange(10.1, 20, dtype=np.float32).tolist()
clipped = [ops.clip_by_global_norm([ms.Tensor(values)], threshold)[0].asnumpy() for threshold in thresholds]
print([bool((results != values).any()) for results in clipped].count(True) > 0)
