"""An infinite threshold of the layer turns zeros into NaN.

Prints:
    [ 3.  4. nan]
"""

import mindspore as ms
import numpy as np
from mindspore import nn

gradient = ms.Tensor(np.array([3.0, 4.0, 0.0], np.float32))
print(nn.ClipByNorm()(gradient, ms.Tensor(float("inf"), ms.float32)))
