"""A gradient of float16 with the norm 1e-4 is not clipped to 5e-5: its square underflows, and the norm counts as 0.

Prints:
    0.0001 0.0
"""

import megengine as mge
import numpy as np
from megengine.optimizer import clip_grad_norm

parameter = mge.Parameter(np.zeros(1, np.float16))
parameter.grad = mge.Tensor(np.array([1e-4], np.float16))
norm = clip_grad_norm([parameter], 5e-5)
print(parameter.grad.numpy()[0], norm.numpy())
