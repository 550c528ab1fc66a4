"""The product of gradient and threshold underflows, and the gradient becomes zero.

Prints:
    [0.0, 0.0]
"""

import numpy as np
from nnabla import NdArray, functions

print(functions.clip_by_norm(NdArray.from_numpy_array(np.array([3e-24, 4e-24], np.float32)), 1e-24).data.tolist())
