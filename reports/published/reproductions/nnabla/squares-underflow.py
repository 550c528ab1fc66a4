"""The squares are subnormal, so a gradient of norm 5e-22 is clipped to the wrong length.

Prints:
    True
"""

import numpy as np
from nnabla import NdArray, functions

clipped = functions.clip_by_norm(NdArray.from_numpy_array(np.array([3e-22, 4e-22], np.float32)), 2.5e-22).data
print(abs(np.hypot(*clipped.astype(float)) / 2.5e-22 - 1) > 1e-3)
