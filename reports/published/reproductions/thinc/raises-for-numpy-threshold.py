"""The optimizer takes no threshold of NumPy's float32.

Prints:
    Invalid schedule for 'grad_clip' (<class 'numpy.float32'>)
"""

import numpy as np
from thinc.api import SGD

try:
    SGD(1.0, grad_clip=np.float32(1))
except ValueError as error:
    print(error)
