"""Gradients of norm 5e-24, to be clipped to 1e-24, become zero: the norm counts as 0, and the product is subnormal.

Prints:
    [0.0, 0.0]
"""

import megengine as mge
import numpy as np
from megengine.optimizer import clip_grad_norm

parameter = mge.Parameter(np.zeros(2, np.float32))
parameter.grad = mge.Tensor(np.array([3e-24, 4e-24], np.float32))
clip_grad_norm([parameter], 1e-24)
print(parameter.grad.numpy().tolist())
