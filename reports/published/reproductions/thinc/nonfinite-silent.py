"""A gradient with NaN is not clipped: 3 stays 3.

Prints:
    [3.0, nan]
"""

import numpy as np
from thinc.api import NumpyOps

print(NumpyOps().clip_gradient(np.array([3, np.nan]), 1.0).tolist())
