"""The sum of squares overflows, and a gradient of norm 5e20 becomes zero instead of norm 1.

Prints:
    [0.0, 0.0]
"""

import numpy as np
from nnabla import NdArray, functions

print(functions.clip_by_norm(NdArray.from_numpy_array(np.array([3e20, 4e20], np.float32)), 1.0).data.tolist())
