"""The squares underflow, so a gradient of norm 5e-24 is not clipped to 1e-24.

Prints:
    ['3e-24', '4e-24']
"""

import numpy as np
from thinc.api import NumpyOps

clipped = NumpyOps().clip_gradient(np.array([3e-24, 4e-24], np.float32), 1e-24)
print([f"{number:.2g}" for number in clipped])
