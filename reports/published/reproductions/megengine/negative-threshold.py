"""A threshold of -1 is not refused, and turns the signs of the gradients around.

Prints:
    [-0.6, 0.8]
"""

import megengine as mge
import numpy as np
from megengine.optimizer import clip_grad_norm

parameter = mge.Parameter(np.zeros(2, np.float32))
parameter.grad = mge.Tensor(np.array([3.0, -4.0], np.float32))
clip_grad_norm([parameter], -1.0)
print([round(float(number), 4) for number in parameter.grad.numpy()])
