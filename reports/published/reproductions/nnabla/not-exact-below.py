"""A gradient below the threshold loses its last bit.

Prints:
    True
"""

import numpy as np
from nnabla import NdArray, functions

gradient = np.linspace(-1, 1, 1001, dtype=np.float32)
clipped = functions.clip_by_norm(NdArray.from_numpy_array(gradient), 1234.5678).data
print(bool((clipped != gradient).any()))
