"""Gradients of two dtypes raise an error.

Prints:
    All input must have the same data type
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradients = [ms.Tensor(np.ones(2, dtype)) for dtype in (np.float32, np.float64)]
try:
    ops.clip_by_norm(gradients, 1.0)
except TypeError as error:
    print(str(error).partition("!")[0])
