"""With an axis, the layer divides by the norms of other rows: the second row has norm 5 and gets another.

Prints:
    [[3.        4.       ]
    [4.1602516 5.547002 ]]
"""

import mindspore as ms
import numpy as np
from mindspore import nn

gradient = ms.Tensor(np.array([[3.0, 4.0], [6.0, 8.0]], np.float32))
print(nn.ClipByNorm(1)(gradient, ms.Tensor(5.0, ms.float32)))
