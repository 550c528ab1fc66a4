"""The layer raises an error for a gradient without elements.

Prints:
    l2_norm_index_ size is 0, bad input size.
"""

import mindspore as ms
import numpy as np
from mindspore import nn

try:
    nn.ClipByNorm()(ms.Tensor(np.zeros(0, np.float32)), ms.Tensor(1.0, ms.float32)).asnumpy()
except RuntimeError as error:
    print(str(error).partition("\n")[0])
