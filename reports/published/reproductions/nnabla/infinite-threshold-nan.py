"""An infinite threshold turns the gradient into NaN.

Prints:
    [nan, nan]
"""

import numpy as np
from nnabla import NdArray, functions

print(functions.clip_by_norm(NdArray.from_numpy_array(np.array([3, 4], np.float32)), float("inf")).data.tolist())
