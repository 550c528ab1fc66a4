"""A gradient without axes comes back with one axis.

Prints:
    (1,)
"""

import mindspore as ms
import numpy as np
from mindspore import ops

print(ops.clip_by_global_norm([ms.Tensor(np.array(3.0, np.float32))], 1.0)[0].shape)
