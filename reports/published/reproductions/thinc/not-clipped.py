"""A grad_clip of zero switches the clip off.

Prints:
    [3.0, -4.0]
"""

import numpy as np
from thinc.api import SGD

weights, _ = SGD(1.0, grad_clip=0.0)((0, "W"), np.zeros(2, np.float32), np.array([3, -4], np.float32))
print((-weights).tolist())
