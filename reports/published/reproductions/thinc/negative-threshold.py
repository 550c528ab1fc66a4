"""A negative threshold flips the signs.

Prints:
    [-0.6, -0.8]
"""

import numpy as np
from thinc.api import NumpyOps

clipped = NumpyOps().clip_gradient(np.array([3, 4], np.float32), -1.0)
print([round(float(number), 6) for number in clipped])
