"""A NaN in one gradient leaves the other gradients unclipped.

Prints:
    [300.0]
"""

import megengine as mge
import numpy as np
from megengine.optimizer import clip_grad_norm

parameters = [mge.Parameter(np.zeros(1, np.float32)) for _ in range(2)]
for parameter, number in zip(parameters, (np.nan, 300.0), strict=True):
    parameter.grad = mge.Tensor(np.array([number], np.float32))
clip_grad_norm(parameters, 1.0)
print(parameters[1].grad.numpy().tolist())
