"""Under jit, clip_by_norm returns the number 0 in place of a list that it clips.

Prints:
    Tensor(shape=[], dtype=Int64, value= 0)
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([3.0, 4.0], np.float32))
print(repr(ms.jit(ops.clip_by_norm)([gradient], 1.0)))
