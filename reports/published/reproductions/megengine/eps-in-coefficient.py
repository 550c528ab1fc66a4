"""Gradients of norm 1e-6 are clipped to 5e-7 instead of 1e-6: the norm gets 1e-6 more.

Prints:
    [3e-07, 4e-07]
"""

import megengine as mge
import numpy as np
from megengine.optimizer import clip_grad_norm

parameter = mge.Parameter(np.zeros(2, np.float32))
parameter.grad = mge.Tensor(np.array([6e-7, 8e-7], np.float32))
clip_grad_norm([parameter], 1e-6)
print([float(f"{number:.3g}") for number in parameter.grad.numpy()])
