"""Gradients whose squares overflow become zero, although the norm is 1.8e20.

Prints:
    [0.0, 0.0]
"""

import megengine as mge
import numpy as np
from megengine.optimizer import clip_grad_norm

parameter = mge.Parameter(np.zeros(2, np.float32))
parameter.grad = mge.Tensor(np.array([1.1e20, 1.5e20], np.float32))
clip_grad_norm([parameter], 3.7e19)
print(parameter.grad.numpy().tolist())
