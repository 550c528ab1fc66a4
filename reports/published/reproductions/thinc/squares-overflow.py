"""Squares overflow in float16, and a gradient of norm 500 becomes zero.

Prints:
    [0.0, 0.0]
"""

import numpy as np
from thinc.api import NumpyOps

print(NumpyOps().clip_gradient(np.array([300, 400], np.float16), 1000.0).tolist())
