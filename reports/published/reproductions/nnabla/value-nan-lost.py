"""NaN becomes a bound.

Prints:
    [1.0, -1.0]
"""

import numpy as np
from nnabla import NdArray, functions

print(functions.clip_by_value(NdArray.from_numpy_array(np.array([3, np.nan], np.float32)), -1.0, 1.0).data.tolist())
