"""The norm of 2**24 numbers is wrong by more than 0.01 % in float32, and so are the clipped gradients.

Prints:
    True
"""

import numpy as np
from thinc.api import NumpyOps

gradient = np.full(2**24, 0.3, np.float32)
print(abs(NumpyOps().clip_gradient(gradient, 1.0)[0] * 2.0**12 - 1) > 1e-4)
