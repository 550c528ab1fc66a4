"""A threshold of zero is refused, as the documentation says.

Prints:
    ValueError('clip_norm must be positive.')
"""

import numpy as np
from nnabla import NdArray, functions

try:
    functions.clip_by_norm(NdArray.from_numpy_array(np.array([3, 4], np.float32)), 0.0)
except ValueError as error:
    print(repr(error))
