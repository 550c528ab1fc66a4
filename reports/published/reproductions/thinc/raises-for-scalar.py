"""The optimizer takes no gradient without axes.

Prints:
    len() of unsized object
"""

import numpy as np
from thinc.api import SGD

try:
    SGD(1.0, grad_clip=1.0)((0, "W"), np.zeros(()), np.array(3.0))
except TypeError as error:
    print(error)
