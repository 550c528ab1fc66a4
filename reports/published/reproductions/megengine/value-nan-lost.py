"""A NaN becomes the upper bound.

Prints:
    [1.0, 0.5]
"""

import megengine as mge
import numpy as np
from megengine.optimizer import clip_grad_value

parameter = mge.Parameter(np.zeros(2, np.float32))
parameter.grad = mge.Tensor(np.array([np.nan, 0.5], np.float32))
clip_grad_value([parameter], -1.0, 1.0)
print(parameter.grad.numpy().tolist())
