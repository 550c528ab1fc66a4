"""The norm of 2**24 numbers is wrong by more than 0.01 % in float32, and so are the clipped gradients.

Prints:
    True
"""

import numpy as np
from nnabla import NdArray, functions

gradient = NdArray.from_numpy_array(np.full(2**24, 0.3, np.float32))
print(bool(abs(functions.clip_by_norm(gradient, 1.0).data[0] * 2.0**12 - 1) > 1e-4))
