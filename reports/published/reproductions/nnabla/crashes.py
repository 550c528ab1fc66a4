"""The process dies of an array without elements.

Prints:
    the process dies
"""

import numpy as np
from nnabla import NdArray, functions

print(functions.clip_by_norm(NdArray.from_numpy_array(np.array([], np.float32)), 1.0).data)
