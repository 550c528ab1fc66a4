"""The layer returns float16 gradients as float32, as its documentation says.

Prints:
    Float32
"""

import mindspore as ms
import numpy as np
from mindspore import nn

gradient = ms.Tensor(np.array([3.0, 4.0], np.float16))
print(nn.ClipByNorm()(gradient, ms.Tensor(1.0, ms.float32)).dtype)
