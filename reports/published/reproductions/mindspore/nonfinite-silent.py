"""A gradient of NaN leaves all gradients unclipped.

Prints:
    [30. nan] [30. nan]
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([30.0, np.nan], np.float32))
print(ops.clip_by_norm(gradient, 1.0), ops.clip_by_global_norm([gradient], 1.0)[0])
