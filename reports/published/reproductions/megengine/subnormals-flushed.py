"""A subnormal number between the bounds becomes zero.

Prints:
    [0.0, 0.5]
"""

import megengine as mge
import numpy as np
from megengine.optimizer import clip_grad_value

parameter = mge.Parameter(np.zeros(2, np.float32))
parameter.grad = mge.Tensor(np.array([1e-40, 0.5], np.float32))
clip_grad_value([parameter], -1.0, 1.0)
print(parameter.grad.numpy().tolist())
