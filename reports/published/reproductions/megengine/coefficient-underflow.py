"""The coefficient 1e-30 / 1e15 underflows, and the gradient becomes zero instead of 1e-30.

Prints:
    0.0
"""

import megengine as mge
import numpy as np
from megengine.optimizer import clip_grad_norm

parameter = mge.Parameter(np.zeros(1, np.float32))
parameter.grad = mge.Tensor(np.array([1e15], np.float32))
clip_grad_norm([parameter], 1e-30)
print(parameter.grad.numpy()[0])
