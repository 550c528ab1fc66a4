"""The factor is subnormal and has one bit, so the results are 25 % too large.

Prints:
    [1.5, 2.0] instead of [1.2, 1.6]
"""

import numpy as np
from thinc.api import NumpyOps

gradient = np.array([3 * 2.0**60, 2.0**62], np.float32)
clipped = NumpyOps().clip_gradient(gradient, 2.0**-86)
print([float(number) * 2.0**87 for number in clipped], "instead of", [1.2, 1.6])
