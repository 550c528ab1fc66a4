"""A negative threshold of the layer flips the signs.

Prints:
    [-0.6 -0.8]
"""

import mindspore as ms
import numpy as np
from mindspore import nn

gradient = ms.Tensor(np.array([3.0, 4.0], np.float32))
print(nn.ClipByNorm()(gradient, ms.Tensor(-1.0, ms.float32)))
