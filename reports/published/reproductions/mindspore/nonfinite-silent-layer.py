"""The layer leaves gradients with NaN unclipped.

Prints:
    [30. nan]
"""

import mindspore as ms
import numpy as np
from mindspore import nn

gradient = ms.Tensor(np.array([30.0, np.nan], np.float32))
print(nn.ClipByNorm()(gradient, ms.Tensor(1.0, ms.float32)))
