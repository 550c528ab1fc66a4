"""Zero is divided by zero.

Prints:
    [nan, nan]
"""

import numpy as np
from thinc.api import NumpyOps

print(NumpyOps().clip_gradient(np.zeros(2), 0.0).tolist())
