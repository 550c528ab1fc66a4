"""A gradient of float16 beside one of float32 comes back as float32.

Prints:
    float16 float32
"""

import megengine as mge
import numpy as np
from megengine.optimizer import clip_grad_norm

parameters = [mge.Parameter(np.zeros(1, dtype)) for dtype in ("float16", "float32")]
for parameter, dtype in zip(parameters, ("float16", "float32"), strict=True):
    parameter.grad = mge.Tensor(np.ones(1, dtype))
before = parameters[0].grad.numpy().dtype
clip_grad_norm(parameters, 1.0)
print(before, parameters[0].grad.numpy().dtype)
