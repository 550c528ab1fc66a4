"""A NumPy scalar as the threshold raises an error.

Prints:
    Failed calling Mul with "Mul()(input=<class 'numpy.float32'>, other=Tensor)".
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([3.0, 4.0], np.float32))
try:
    ops.clip_by_norm(gradient, np.float32(1.0))
except TypeError as error:
    print(str(error).partition("\n")[0])
