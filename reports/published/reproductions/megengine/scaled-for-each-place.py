"""A parameter that occurs twice in the list is multiplied twice.

Prints:
    [0.25]
"""

import megengine as mge
import numpy as np
from megengine.optimizer import clip_grad_norm

parameter = mge.Parameter(np.zeros(1, np.float32))
parameter.grad = mge.Tensor(np.array([2.0], np.float32))
clip_grad_norm([parameter, parameter], 1.0)
print([round(float(number), 4) for number in parameter.grad.numpy()])
