"""The layer scales gradients of norm 5e-4 to half their size, although the threshold is 5e-4.

Prints:
    [0.00015, 0.0002]
"""

import mindspore as ms
import numpy as np
from mindspore import nn

gradient = ms.Tensor(np.array([3e-4, 4e-4], np.float32))
clipped = nn.ClipByNorm()(gradient, ms.Tensor(5e-4, ms.float32)).asnumpy()
print([float(f"{number:.3g}") for number in clipped])
